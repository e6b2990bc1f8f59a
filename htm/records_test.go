//go:build linux && amd64 && !race

package htm_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"drtmd/htm"
	"drtmd/verbs"
	"drtmd/verbs/ibv"
	"drtmd/verbs/shm"
)

// Records of these tests: version, state, and a value of two words that are always equal, the
// second of them on another line. The sum of all values stays 0.
const (
	recordBytes = 2 * lineBytes
	records     = 6
	versionIn   = 0
	stateIn     = 8
	firstIn     = 16
	secondIn    = lineBytes
	valueBytes  = secondIn + 8 - firstIn

	localLock  = 1
	remoteLock = 3
)

// wire is an RC QP that works on the host's MR, with registered memory for operands.
type wire struct {
	qp     *verbs.QP
	cq     *verbs.CQ
	buffer *verbs.MR
	remote verbs.RemoteMR
}

// do posts a request and waits for it.
func (w *wire) do(wr verbs.WR, off, n int) error {
	wr.NumSGE, wr.SGE[0], wr.Flags = 1, w.buffer.SGE(0, n), verbs.FlagSignaled
	wr.RemoteAddr, wr.RKey = w.remote.Addr+uint64(off), w.remote.RKey
	if _, err := w.qp.PostSend([]verbs.WR{wr}); err != nil {
		return err
	}
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); {
		var wc [1]verbs.WC
		if n, err := w.cq.Poll(wc[:]); n == 1 || err != nil {
			return cmpErr(err, wc[0].Err())
		}
		runtime.Gosched()
	}
	return fmt.Errorf("%s does not complete", wr.Op)
}

func cmpErr(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// swap is a CAS that reports whether it took place.
func (w *wire) swap(off int, expect, value uint64) (bool, error) {
	err := w.do(verbs.WR{Op: verbs.OpCAS, CompareAdd: expect, Swap: value}, off, 8)
	return w.word(0) == expect, err
}

func (w *wire) word(at int) uint64 { return binary.NativeEndian.Uint64(w.buffer.Bytes()[at:]) }

func (w *wire) setWord(at int, v uint64) {
	binary.NativeEndian.PutUint64(w.buffer.Bytes()[at:], v)
}

// recordBed is a host MR without line words, a loopback wire to it and one from elsewhere.
type recordBed struct {
	mr            *verbs.MR
	memory        *htm.Memory
	local, remote *wire
}

func newRecordBed(t *testing.T, p verbs.Provider) *recordBed {
	t.Helper()
	open := func() (*verbs.Context, *verbs.PD) {
		c, err := p.Open("")
		must(t, err)
		t.Cleanup(func() { must(t, c.Close()) })
		pd, err := c.AllocPD()
		must(t, err)
		return c, pd
	}
	host, hostPD := open()
	away, awayPD := open()
	b := &recordBed{}
	var err error
	b.mr, err = hostPD.AllocMR(mrBytes, verbs.AccessAll, verbs.MROptions{})
	must(t, err)
	b.memory = htm.NewMemory(b.mr.Bytes(), nil, 0, nil)
	b.local = newWire(t, host, hostPD, host, hostPD, b.mr)
	b.remote = newWire(t, away, awayPD, host, hostPD, b.mr)
	return b
}

func newWire(t *testing.T, c *verbs.Context, pd *verbs.PD, host *verbs.Context, hostPD *verbs.PD,
	mr *verbs.MR) *wire {
	t.Helper()
	qp := func(c *verbs.Context, pd *verbs.PD) (*verbs.QP, *verbs.CQ) {
		cq, err := c.CreateCQ(verbs.CQConfig{Depth: 16})
		must(t, err)
		qp, err := pd.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: cq, RecvCQ: cq,
			SendDepth: 4, RecvDepth: 1, Access: verbs.AccessAll})
		must(t, err)
		return qp, cq
	}
	w := &wire{remote: mr.Remote()}
	var err error
	w.buffer, err = pd.AllocMR(4096, verbs.AccessAll, verbs.MROptions{})
	must(t, err)
	w.qp, w.cq = qp(c, pd)
	target, _ := qp(host, hostPD)
	here, there := w.qp.Endpoint(), target.Endpoint()
	must(t, target.Connect(&here, verbs.ConnectAttr{}))
	must(t, w.qp.Connect(&there, verbs.ConnectAttr{}))
	return w
}

// atHost reads a word of the host's memory by the CPU.
func (b *recordBed) atHost(off int) uint64 {
	return atomic.LoadUint64((*uint64)(unsafe.Pointer(&b.mr.Bytes()[off])))
}

// looped is the commit of design decision 3: locks by loopback CAS in global order, and versions that are
// looked at again.
type looped struct {
	b      *recordBed
	read   []int    // offsets of the records
	seen   []uint64 // their versions
	locked int      // how many of read, in ascending order
	err    error
}

func (l *looped) Lock() bool {
	for l.locked = 0; l.locked < len(l.read); l.locked++ {
		ok, err := l.b.local.swap(l.read[l.locked]+stateIn, 0, localLock)
		if l.err = cmpErr(l.err, err); !ok || err != nil {
			return false
		}
	}
	return true
}

func (l *looped) Confirm() bool { return true }

func (l *looped) Validate() bool {
	for i, off := range l.read {
		if l.b.atHost(off+versionIn) != l.seen[i] {
			return false
		}
	}
	return true
}

func (l *looped) Unlock(bool) {
	for _, off := range l.read[:l.locked] {
		ok, err := l.b.local.swap(off+stateIn, localLock, 0)
		l.err = cmpErr(l.err, err)
		if !ok && l.err == nil {
			l.err = fmt.Errorf("the state of the record at %d was changed under its lock", off)
		}
	}
}

// twoRecords draws two different ones, in ascending order.
func twoRecords(rng *rand.Rand) []int {
	a := rng.IntN(records)
	b := (a + 1 + rng.IntN(records-1)) % records
	return []int{min(a, b) * recordBytes, max(a, b) * recordBytes}
}

// locally moves amounts between records in regions until n have committed.
func (b *recordBed) locally(n int) error {
	r := htm.NewRegion(htm.Config{})
	rng := rand.New(rand.NewPCG(1, 1))
	for done := 0; done < n; {
		l := &looped{b: b, read: twoRecords(rng)}
		r.Begin()
		for i, off := range l.read {
			version, value, err := b.look(r, off)
			if err != nil {
				return err
			}
			l.seen = append(l.seen, version)
			value += uint64(1 - 2*i)
			r.Store64(b.memory, off+versionIn, version+1)
			r.Store64(b.memory, off+firstIn, value)
			r.Store64(b.memory, off+secondIn, value)
		}
		if r.Commit(l) {
			done++
		}
		if l.err != nil {
			return l.err
		}
	}
	return nil
}

// look copies a record between two looks at its state and version, and aborts the region if these
// differ or the record is locked.
func (b *recordBed) look(r *htm.Region, off int) (version, value uint64, err error) {
	load := func(at int) uint64 {
		v, _ := r.Load64(b.memory, off+at)
		return v
	}
	state, version := load(stateIn), load(versionIn)
	value, second := load(firstIn), load(secondIn)
	if state != 0 || load(stateIn) != 0 || load(versionIn) != version {
		r.Abort(1)
		return 0, 0, nil
	}
	if r.Active() && value != second {
		return 0, 0, fmt.Errorf("record at %d, version %d, is torn: %d and %d", off, version,
			int64(value), int64(second))
	}
	return version, value, nil
}

// remotely does the same from elsewhere: lock and read, write back, unlock.
func (b *recordBed) remotely(n int) error {
	w := b.remote
	rng := rand.New(rand.NewPCG(1, 2))
	for done := 0; done < n; {
		pair := twoRecords(rng)
		locked := 0
		for ; locked < len(pair); locked++ {
			ok, err := w.swap(pair[locked]+stateIn, 0, remoteLock)
			if err != nil {
				return err
			}
			if !ok {
				break
			}
		}
		for i, off := range pair[:locked] {
			if locked == len(pair) {
				if err := w.change(off, uint64(1-2*i)); err != nil {
					return err
				}
			}
		}
		for _, off := range pair[:locked] {
			if ok, err := w.swap(off+stateIn, remoteLock, 0); !ok || err != nil {
				return fmt.Errorf("unlock of the record at %d: %v, %w", off, ok, err)
			}
		}
		done += locked / len(pair)
	}
	return nil
}

// change adds to the value of a locked record, and raises its version first.
func (w *wire) change(off int, by uint64) error {
	if err := w.do(verbs.WR{Op: verbs.OpRead}, off, recordBytes); err != nil {
		return err
	}
	version, value, second := w.word(versionIn), w.word(firstIn), w.word(secondIn)
	if value != second {
		return fmt.Errorf("a READ under the lock saw %d and %d", int64(value), int64(second))
	}
	w.setWord(0, version+1)
	if err := w.do(verbs.WR{Op: verbs.OpWrite}, off+versionIn, 8); err != nil {
		return err
	}
	w.setWord(0, value+by)
	w.setWord(valueBytes-8, value+by)
	return w.do(verbs.WR{Op: verbs.OpWrite}, off+firstIn, valueBytes)
}

// TestRegionsOnDevicesWhoseAtomicsIgnoreTheCPU runs design decision 3's commit against remote
// transactions, each on a CPU of its own, on a device without line words (rxe in the virtual
// machine), and on shm as if it were one.
func TestRegionsOnDevicesWhoseAtomicsIgnoreTheCPU(t *testing.T) {
	run := func(t *testing.T, p verbs.Provider, n int) {
		b := newRecordBed(t, p)
		errs := make(chan error, 2)
		for cpu, side := range []func(int) error{b.locally, b.remotely} {
			go func() { errs <- pinned(cpu, func() error { return side(n) }) }()
		}
		must(t, cmpErr(<-errs, <-errs))
		var sum, versions uint64
		for i := range records {
			off := i * recordBytes
			sum += b.atHost(off + firstIn)
			versions += b.atHost(off + versionIn)
			if b.atHost(off+firstIn) != b.atHost(off+secondIn) || b.atHost(off+stateIn) != 0 {
				t.Errorf("record %d is torn or locked", i)
			}
		}
		if sum != 0 || versions != uint64(4*n) {
			t.Errorf("the sum is %d and %d versions, want 0 and %d", int64(sum), versions, 4*n)
		}
	}
	t.Run("shm", func(t *testing.T) {
		run(t, shm.New(shm.Options{Dir: filepath.Join(t.TempDir(), "run")}), 3000)
	})
	t.Run("ibv", func(t *testing.T) {
		p := ibv.New()
		devices, err := p.Devices()
		if err != nil || len(devices) == 0 {
			if os.Getenv("DRTMD_REQUIRE") == "ibv" {
				t.Fatalf("DRTMD_REQUIRE=ibv, but: %d devices, %v", len(devices), err)
			}
			t.Skipf("no RDMA device: %d devices, %v", len(devices), err)
		}
		run(t, p, 400)
	})
}

// pinned runs f on a thread that stays on one CPU: threads that may move end up taking turns on
// one, which hides what does not exclude each other.
func pinned(cpu int, f func() error) error {
	runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
	var all, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		return err
	}
	cpus := slices.DeleteFunc([]int{0, 1, 2, 3, 4, 5, 6, 7}, func(c int) bool { return !all.IsSet(c) })
	if len(cpus) > cpu {
		one.Set(cpus[cpu])
		if err := unix.SchedSetaffinity(0, &one); err != nil {
			return err
		}
	}
	return f()
}
