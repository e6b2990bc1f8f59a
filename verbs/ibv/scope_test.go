//go:build cgo && linux

package ibv

import (
	"encoding/binary"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"drtmd/verbs"
)

// The states of ibv_qp_state that the tests look for.
const (
	stateRTS = 3
	stateErr = 6
)

func addressOf(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }

// onCPU runs f in a goroutine of its own on a thread that stays on one CPU: threads that may
// move end up taking turns on one, which hides what does not exclude each other.
func onCPU(wg *sync.WaitGroup, cpu int, f func() error, errs chan<- error) {
	wg.Go(func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		var set unix.CPUSet
		set.Set(cpu)
		err := unix.SchedSetaffinity(0, &set)
		if err == nil {
			err = f()
		}
		if err != nil {
			errs <- err
		}
	})
}

// twoCPUs skips on machines where nothing runs at the same time.
func twoCPUs(t *testing.T) {
	t.Helper()
	if n := runtime.NumCPU(); n < 2 {
		t.Skipf("%d CPU: nothing runs at the same time", n)
	}
}

// runPinned runs each function on a CPU of its own, waits for all and gives the first error.
func runPinned(fs ...func() error) error {
	var wg sync.WaitGroup
	errs := make(chan error, len(fs))
	for cpu, f := range fs {
		onCPU(&wg, cpu, f, errs)
	}
	wg.Wait()
	close(errs)
	return <-errs
}

// atomics issues one operation after another on a word and gives each old value to see, until
// see says that it is enough.
func atomics(s *side, wr verbs.WR, see func(old uint64, wr *verbs.WR) bool) error {
	offset := int(wr.SGE[0].Addr - s.mr.Addr())
	for {
		wr.ID++
		if _, err := s.qp.PostSend([]verbs.WR{wr}); err != nil {
			return err
		}
		wcs, err := pollN(s.cq, 1, patience)
		if err != nil {
			return err
		}
		if err := wcs[0].Err(); err != nil {
			return err
		}
		if !see(binary.NativeEndian.Uint64(s.mr.Bytes()[offset:]), &wr) {
			return nil
		}
	}
}

// increments adds n to a word by CAS.
func increments(s *side, wr verbs.WR, n int) error {
	wr.CompareAdd, wr.Swap = 0, 1
	return atomics(s, wr, func(old uint64, wr *verbs.WR) bool {
		if old == wr.CompareAdd {
			n--
			old++
		}
		wr.CompareAdd, wr.Swap = old, old+1
		return n > 0
	})
}

// TestLoopbackAndRemoteCASLoseNothing: one word, its owner by a loopback QP, another process's
// device context by a remote one, each on a CPU of its own.
func TestLoopbackAndRemoteCASLoseNothing(t *testing.T) {
	twoCPUs(t)
	owner, far := requireDevice(t), requireDevice(t)
	loop, word := newPair(t, owner, defaultConfig(verbs.RC))
	remote, entry := newSide(t, far, defaultConfig(verbs.RC)), newSideIn(t, owner, word)
	ea, eb := remote.qp.Endpoint(), entry.qp.Endpoint()
	check(t, remote.qp.Connect(&eb, verbs.ConnectAttr{}))
	check(t, entry.qp.Connect(&ea, verbs.ConnectAttr{}))
	const n = 1500
	check(t, runPinned(
		func() error { return increments(loop, at(loop.wr(verbs.OpCAS, 0, 0, 8), word, 64), n) },
		func() error { return increments(remote, at(remote.wr(verbs.OpCAS, 0, 0, 8), word, 64), n) },
	))
	if got := binary.NativeEndian.Uint64(word.mr.Bytes()[64:]); got != 2*n {
		t.Fatalf("%d increments made %d", 2*n, got)
	}
}

// newSideIn is a QP in the domain of another side, for access to that one's region.
func newSideIn(t *testing.T, c *verbs.Context, host *side) *side {
	t.Helper()
	s := &side{t: t, pd: host.pd, mr: host.mr}
	var err error
	s.cq, err = c.CreateCQ(verbs.CQConfig{Depth: 32})
	check(t, err)
	s.qp, err = host.pd.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: s.cq, RecvCQ: s.cq,
		SendDepth: 16, RecvDepth: 16, Access: verbs.AccessAll})
	check(t, err)
	t.Cleanup(func() {
		check(t, s.qp.Close())
		check(t, s.cq.Close())
	})
	return s
}

// casWritesBack runs CPU increments of a word beside lists of remote CAS that never match, until
// one of the increments is gone or the time is over. The window is a few instructions wide: it
// takes some thousands of CAS, more where both CPUs are busy with other things.
func casWritesBack(t *testing.T) error {
	twoCPUs(t)
	a, b := newPair(t, requireDevice(t), defaultConfig(verbs.RC))
	word := (*uint64)(unsafe.Pointer(&b.mr.Bytes()[64]))
	list := make([]verbs.WR, 32)
	for i := range list {
		list[i] = at(a.wr(verbs.OpCAS, uint64(i), 8*i, 8), b, 64)
		list[i].CompareAdd, list[i].Flags = 1<<63, 0
	}
	list[len(list)-1].Flags = verbs.FlagSignaled
	var done, stop atomic.Uint64 // done counts an increment before it is made
	remote := 0
	err := runPinned(
		func() error {
			for stop.Load() == 0 {
				done.Add(1)
				atomic.AddUint64(word, 1)
			}
			return nil
		},
		func() error {
			defer stop.Store(1)
			for end := time.Now().Add(3 * patience); time.Now().Before(end); {
				if _, err := a.qp.PostSend(list); err != nil {
					return err
				}
				if wcs, err := pollN(a.cq, 1, patience); err != nil || wcs[0].Err() != nil {
					return errors.Join(err, wcs[0].Err())
				}
				remote += len(list)
				if made := done.Load(); made > atomic.LoadUint64(word)+1 {
					return nil
				}
			}
			return nil
		})
	if err != nil {
		return err
	}
	lost := done.Load() - atomic.LoadUint64(word)
	t.Logf("beside %d CAS that never match, %d of %d CPU increments were lost", remote, lost,
		done.Load())
	if lost == 0 {
		return errors.New("nothing was lost")
	}
	return nil
}

// cpuAgainstRemote is measured for the documents: increments by CPU CAS, as fast as they come,
// beside increments by remote CAS. What is lost is logged, not asserted.
func cpuAgainstRemote(t *testing.T) error {
	twoCPUs(t)
	a, b := newPair(t, requireDevice(t), defaultConfig(verbs.RC))
	word := (*uint64)(unsafe.Pointer(&b.mr.Bytes()[64]))
	const remote = 4000
	var cpu, stop atomic.Uint64
	check(t, runPinned(
		func() error {
			for stop.Load() == 0 {
				old := atomic.LoadUint64(word)
				if atomic.CompareAndSwapUint64(word, old, old+1) {
					cpu.Add(1)
				}
			}
			return nil
		},
		func() error {
			defer stop.Store(1)
			wr := at(a.wr(verbs.OpFAA, 0, 0, 8), b, 64)
			wr.CompareAdd = 1
			left := remote
			return atomics(a, wr, func(uint64, *verbs.WR) bool {
				left--
				return left > 0
			})
		}))
	done := cpu.Load() + remote
	lost := done - atomic.LoadUint64(word)
	t.Logf("of %d increments by CPU CAS beside %d by remote FAA, %d were lost", cpu.Load(), remote,
		lost)
	return nil
}
