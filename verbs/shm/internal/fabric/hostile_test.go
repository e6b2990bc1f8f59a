//go:build linux && amd64

package fabric

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// startHostile joins the fabric as a live process whose socket is served by act, once for each
// connection. act gets the raw first request.
func startHostile(t *testing.T, dir string, act func(c *net.UnixConn, req frame)) ProcID {
	t.Helper()
	h := openTest(t, dir)
	path := filepath.Join(dir, h.Self().String())
	must(t, os.Remove(path))
	lis, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: path, Net: "unixpacket"})
	must(t, err)
	lis.SetUnlinkOnClose(false)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := lis.AcceptUnix()
			if err != nil {
				return
			}
			b := make([]byte, maxFrameBytes)
			n, _ := c.Read(b)
			if req, err := parseFrame(b[:max(n, 0)]); err == nil {
				act(c, req)
			}
			_ = c.Close()
		}
	}()
	t.Cleanup(func() { must(t, lis.Close()); <-done })
	return h.Self()
}

// answer builds the reply that an honest peer would send.
func answer(req frame, payload []byte) frame {
	return frame{op: opReply, status: statusOK, from: req.to, to: req.from, seq: req.seq,
		payload: payload}
}

func sendRaw(c *net.UnixConn, b []byte, fds ...int) {
	_, _, _ = c.WriteMsgUnix(b, unix.UnixRights(fds...), nil)
}

const hostileSize = 64 << 10

// testFile makes a descriptor that the test closes at its end.
func testFile(t *testing.T, fd int, err error) int {
	t.Helper()
	must(t, err)
	t.Cleanup(func() { closeFD(fd) })
	return fd
}

// testMemfd makes anonymous memory of any size and seals.
func testMemfd(t *testing.T, size, allocated int64, seals int) int {
	fd, err := memfd(0)
	testFile(t, fd, err)
	must(t, unix.Ftruncate(fd, size))
	if allocated > 0 {
		must(t, unix.Fallocate(fd, 0, 0, allocated))
	}
	_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals)
	must(t, err)
	return fd
}

func TestHostileSegmentsAreNotMapped(t *testing.T) {
	const size = hostileSize
	for _, c := range []struct {
		name string
		make func(t *testing.T) []int
		info segmentInfo
		want error
	}{
		{"honest", func(t *testing.T) []int {
			return []int{testMemfd(t, size, size, wantSeals)}
		}, segmentInfo{size: size}, nil},
		{"not sealed", func(t *testing.T) []int {
			return []int{testMemfd(t, size, size, 0)}
		}, segmentInfo{size: size}, ErrBadSegment},
		{"may shrink", func(t *testing.T) []int {
			return []int{testMemfd(t, size, size, unix.F_SEAL_GROW|unix.F_SEAL_SEAL)}
		}, segmentInfo{size: size}, ErrBadSegment},
		{"seals may be added", func(t *testing.T) []int {
			return []int{testMemfd(t, size, size, unix.F_SEAL_GROW|unix.F_SEAL_SHRINK)}
		}, segmentInfo{size: size}, ErrBadSegment},
		{"sealed against writing", func(t *testing.T) []int {
			return []int{testMemfd(t, size, size, wantSeals|unix.F_SEAL_WRITE)}
		}, segmentInfo{size: size}, ErrBadSegment},
		{"smaller than announced", func(t *testing.T) []int {
			return []int{testMemfd(t, size/2, size/2, wantSeals)}
		}, segmentInfo{size: size}, ErrBadSegment},
		{"larger than announced", func(t *testing.T) []int {
			return []int{testMemfd(t, size*2, size*2, wantSeals)}
		}, segmentInfo{size: size}, ErrBadSegment},
		{"not allocated", func(t *testing.T) []int {
			return []int{testMemfd(t, size, size/2, wantSeals)}
		}, segmentInfo{size: size}, ErrBadSegment},
		{"hugetlb that is none", func(t *testing.T) []int {
			return []int{testMemfd(t, size, size, wantSeals)}
		}, segmentInfo{size: size, hugeTLB: true}, ErrBadSegment},
		{"size 0", func(t *testing.T) []int {
			return []int{testMemfd(t, 0, 0, wantSeals)}
		}, segmentInfo{}, ErrBadSegment},
		{"read-only", func(t *testing.T) []int {
			fd := testMemfd(t, size, size, wantSeals)
			ro, err := os.Open(filepath.Join("/proc/self/fd", strconv.Itoa(fd)))
			must(t, err)
			t.Cleanup(func() { must(t, ro.Close()) })
			return []int{int(ro.Fd())}
		}, segmentInfo{size: size}, ErrBadSegment},
		{"pipe", func(t *testing.T) []int {
			var p [2]int
			err := unix.Pipe2(p[:], unix.O_CLOEXEC)
			testFile(t, p[1], err)
			return []int{testFile(t, p[0], err)}
		}, segmentInfo{size: size}, ErrBadSegment},
		{"event", func(t *testing.T) []int {
			fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
			return []int{testFile(t, fd, err)}
		}, segmentInfo{size: size}, ErrBadSegment},
		{"plain file", func(t *testing.T) []int {
			fd, err := unix.Open("/dev/shm", unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
			testFile(t, fd, err)
			must(t, unix.Fallocate(fd, 0, 0, size))
			return []int{fd}
		}, segmentInfo{size: size}, ErrBadSegment},
		{"plain file as kept memory", func(t *testing.T) []int {
			fd, err := unix.Open("/dev/shm", unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
			testFile(t, fd, err)
			must(t, unix.Fallocate(fd, 0, 0, size))
			return []int{fd}
		}, segmentInfo{size: size, kept: "real"}, ErrBadSegment},
		{"kept memory that does not exist", func(t *testing.T) []int {
			return []int{testMemfd(t, size, size, wantSeals)}
		}, segmentInfo{size: size, kept: "missing"}, ErrBadSegment},
		{"no descriptor", func(*testing.T) []int { return nil },
			segmentInfo{size: size}, ErrBadSegment},
		{"two descriptors", func(t *testing.T) []int {
			return []int{testMemfd(t, size, size, wantSeals), testMemfd(t, size, size, wantSeals)}
		}, segmentInfo{size: size}, ErrBadSegment},
		{"more descriptors than there is room for", func(t *testing.T) []int {
			fd := testMemfd(t, size, size, wantSeals)
			fds := make([]int, 100)
			for i := range fds {
				fds[i] = fd
			}
			return fds
		}, segmentInfo{size: size}, ErrBadSegment},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := testDir(t)
			f := openTest(t, dir)
			newSegment(t, f, SegmentOptions{Size: size, Keep: "real"})
			fds := c.make(t)
			p := startHostile(t, dir, func(conn *net.UnixConn, req frame) {
				reply := answer(req, c.info.append(nil))
				sendRaw(conn, reply.appendTo(nil), fds...)
			})
			before := openFDs()
			s, err := f.Import(p, 1)
			if c.want == nil {
				must(t, err)
				s.Bytes()[size-1] = 1
				must(t, s.Close())
				return
			}
			wantErr(t, err, c.want)
			waitFDs(t, before)
		})
	}
}

// waitFDs waits until descriptors that other goroutines are closing are gone.
func waitFDs(t *testing.T, atMost int) {
	t.Helper()
	for deadline := time.Now().Add(longEnough); openFDs() > atMost; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d descriptors, %d before", openFDs(), atMost)
		}
	}
}

func TestHostileEventsAreRefused(t *testing.T) {
	dir := testDir(t)
	f := openTest(t, dir)
	fd := testMemfd(t, 1, 0, 0)
	p := startHostile(t, dir, func(c *net.UnixConn, req frame) {
		reply := answer(req, nil)
		sendRaw(c, reply.appendTo(nil), fd)
	})
	_, err := f.ImportFD(p, 1)
	wantErr(t, err, ErrBadSegment, "not an eventfd")
}

// A peer that makes its event blocking and fills it does not hold us.
func TestHostileFullBlockingEventDoesNotBlockSignal(t *testing.T) {
	dir := testDir(t)
	f := openTest(t, dir)
	efd, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	fd := testFile(t, efd, err)
	p := startHostile(t, dir, func(c *net.UnixConn, req frame) {
		reply := answer(req, nil)
		sendRaw(c, reply.appendTo(nil), fd)
	})
	e, err := f.ImportFD(p, 1)
	must(t, err)
	defer func() { must(t, e.Close()) }()
	_, err = unix.Write(fd, []byte{0xfe, 255, 255, 255, 255, 255, 255, 255})
	must(t, err)
	must(t, unix.SetNonblock(fd, false))
	over := make(chan error)
	go func() { over <- e.Signal() }()
	select {
	case err := <-over:
		must(t, err)
	case <-time.After(longEnough):
		t.Error("blocked")
		_, err = unix.Read(fd, make([]byte, 8)) // lets it go
		must(t, errors.Join(err, <-over))
	}
}

func TestHostileAnswersAreErrors(t *testing.T) {
	stray := testMemfd(t, 1, 0, 0) // sent along, and to be closed by who gets it
	for _, c := range []struct {
		name string
		act  func(conn *net.UnixConn, req frame)
		want error
	}{
		{"closes", func(*net.UnixConn, frame) {}, ErrHungUp},
		{"half a frame, then closes", func(conn *net.UnixConn, req frame) {
			reply := answer(req, []byte("half"))
			sendRaw(conn, reply.appendTo(nil)[:20], stray)
		}, ErrBadFrame},
		{"payload cut", func(conn *net.UnixConn, req frame) {
			reply := answer(req, []byte("half"))
			sendRaw(conn, reply.appendTo(nil)[:frameHeadBytes+2], stray)
		}, ErrBadFrame},
		{"oversize", func(conn *net.UnixConn, req frame) {
			reply := answer(req, make([]byte, MaxMessage+1))
			sendRaw(conn, reply.appendTo(nil), stray)
		}, ErrBadFrame},
		{"garbage", func(conn *net.UnixConn, _ frame) {
			sendRaw(conn, make([]byte, 100), stray)
		}, ErrBadFrame},
		{"answers another request", func(conn *net.UnixConn, req frame) {
			req.seq++
			reply := answer(req, nil)
			sendRaw(conn, reply.appendTo(nil), stray)
		}, ErrBadFrame},
		{"a request instead", func(conn *net.UnixConn, req frame) {
			sendRaw(conn, req.appendTo(nil), stray)
		}, ErrBadFrame},
		{"in the name of another", func(conn *net.UnixConn, req frame) {
			req.to.Incarnation++
			reply := answer(req, nil)
			sendRaw(conn, reply.appendTo(nil), stray)
		}, ErrHungUp},
		{"never", func(conn *net.UnixConn, _ frame) {
			_, _ = conn.Read(make([]byte, 1)) // until the caller gives up
		}, ErrPeerTimeout},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := testDir(t)
			f := openTest(t, dir)
			p := startHostile(t, dir, c.act)
			before := openFDs()
			_, err := f.Call(p, kindEcho, nil, 200*time.Millisecond)
			wantErr(t, err, c.want)
			waitFDs(t, before)
		})
	}
}

// Whatever a client sends, the server drops the connection and serves the next one.
func TestHostileRequestsEndTheirConnection(t *testing.T) {
	dir := testDir(t)
	f, g := openTest(t, dir), openTest(t, dir)
	f.Handle(kindEcho, func(_ ProcID, req []byte) ([]byte, error) { return req, nil })
	q := frame{op: opCall, kind: kindEcho, from: g.Self(), to: f.Self()}
	reply := answer(q, nil)
	oversize := q
	oversize.payload = make([]byte, MaxMessage+1)
	for _, c := range []struct {
		name string
		send []byte
	}{
		{"garbage", make([]byte, 100)},
		{"half a frame", q.appendTo(nil)[:20]},
		{"oversize", oversize.appendTo(nil)},
		{"a reply", reply.appendTo(nil)},
	} {
		t.Run(c.name, func(t *testing.T) {
			uc, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{
				Name: filepath.Join(dir, f.Self().String()), Net: "unixpacket"})
			must(t, err)
			defer uc.Close()
			pipe := testMemfd(t, 1, 0, 0)
			sendRaw(uc, c.send, pipe) // descriptors along with requests are dropped
			must(t, uc.SetReadDeadline(time.Now().Add(longEnough)))
			if n, err := uc.Read(make([]byte, 1)); n != 0 || errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("read %d bytes, %v", n, err)
			}
			_, err = g.Call(f.Self(), kindEcho, nil, 0)
			must(t, err)
		})
	}
}

// A request from a process that is not alive, or to one that is not there any more, is refused.
func TestRequestsOfTheDeadAreRefused(t *testing.T) {
	dir := testDir(t)
	f, g := openTest(t, dir), openTest(t, dir)
	called := false
	f.Handle(kindEcho, func(ProcID, []byte) ([]byte, error) { called = true; return nil, nil })
	dead := ProcID{Slot: 9, Incarnation: 9}
	for _, q := range []frame{
		{op: opCall, kind: kindEcho, from: dead, to: f.Self()},
		{op: opCall, kind: kindEcho, from: g.Self(), to: dead},
	} {
		uc, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{
			Name: filepath.Join(dir, f.Self().String()), Net: "unixpacket"})
		must(t, err)
		sendRaw(uc, q.appendTo(nil))
		must(t, uc.SetReadDeadline(time.Now().Add(longEnough)))
		b := make([]byte, maxFrameBytes)
		n, err := uc.Read(b)
		must(t, err)
		reply, err := parseFrame(b[:n])
		must(t, errors.Join(err, uc.Close()))
		if reply.status != statusWrongTarget || called {
			t.Errorf("status %d, handler called: %v", reply.status, called)
		}
	}
}
