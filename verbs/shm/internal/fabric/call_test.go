//go:build linux && amd64

package fabric

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"
)

func TestCallAcrossProcesses(t *testing.T) {
	dir := testDir(t)
	f := openTest(t, dir)
	c := startChild(t, "member", dir)
	answer, err := f.Call(c.id, kindEcho, []byte("hello"), 0)
	must(t, err)
	if string(answer) != "child: hello" {
		t.Errorf("answer %q", answer)
	}
	_, err = f.Call(c.id, kindFail, nil, 0)
	var remote *RemoteError
	if !errors.As(err, &remote) || remote.Text != "denied" || remote.Kind != kindFail {
		t.Errorf("handler's error came as %v", err)
	}
	_, err = f.Call(c.id, kindBig, nil, 0)
	if !errors.As(err, &remote) || remote.Text != ErrTooBig.Error() {
		t.Errorf("oversize answer came as %v", err)
	}
	_, err = f.Call(c.id, 99, nil, 0)
	wantErr(t, err, ErrNoHandler)
	_, err = f.Call(c.id, kindEcho, make([]byte, MaxMessage+1), 0)
	wantErr(t, err, ErrTooBig, "65536")
	answer, err = f.Call(c.id, kindEcho, make([]byte, MaxMessage-len("child: ")), 0)
	if err != nil || len(answer) != MaxMessage {
		t.Errorf("largest message: %d bytes, %v", len(answer), err)
	}
}

func TestCallInOneProcess(t *testing.T) {
	dir := testDir(t)
	f, g := openTest(t, dir), openTest(t, dir)
	block := make(chan struct{})
	for _, h := range []*Fabric{f, g} {
		h.Handle(1, func(from ProcID, req []byte) ([]byte, error) {
			return fmt.Appendf(nil, "%s %s", from, req), nil
		})
		h.Handle(2, func(ProcID, []byte) ([]byte, error) { return nil, errors.New("denied") })
		h.Handle(3, func(ProcID, []byte) ([]byte, error) { <-block; return nil, nil })
	}
	for _, to := range []*Fabric{f, g} { // itself, and over the socket
		answer, err := f.Call(to.Self(), 1, []byte("hi"), 0)
		must(t, err)
		if want := f.Self().String() + " hi"; string(answer) != want {
			t.Errorf("answer %q, want %q", answer, want)
		}
		_, err = f.Call(to.Self(), 2, nil, 0)
		var remote *RemoteError
		if !errors.As(err, &remote) {
			t.Errorf("handler's error came as %v", err)
		}
		_, err = f.Call(to.Self(), 3, nil, 10*time.Millisecond)
		wantErr(t, err, ErrPeerTimeout)
		_, err = f.Call(to.Self(), 4, nil, 0)
		wantErr(t, err, ErrNoHandler)
	}
	close(block)
}

func TestCallsRunConcurrently(t *testing.T) {
	dir := testDir(t)
	f, g := openTest(t, dir), openTest(t, dir)
	const callers, rounds = 16, 50
	var together sync.WaitGroup
	together.Add(callers)
	g.Handle(1, func(_ ProcID, req []byte) ([]byte, error) {
		if len(req) == 0 { // returns only once all callers are here
			together.Done()
			together.Wait()
		}
		return req, nil
	})
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			if _, err := f.Call(g.Self(), 1, nil, longEnough); err != nil {
				t.Error(err)
			}
			for j := range rounds {
				want := fmt.Sprint(i, j)
				got, err := f.Call(g.Self(), 1, []byte(want), longEnough)
				if err != nil || string(got) != want {
					t.Errorf("got %q, %v; want %q", got, err, want)
				}
			}
		})
	}
	all.Wait()
}

func TestCloseEndsWhatIsRunning(t *testing.T) {
	dir := testDir(t)
	f, g := openTest(t, dir), openTest(t, dir)
	entered, block := make(chan struct{}), make(chan struct{})
	g.Handle(1, func(ProcID, []byte) ([]byte, error) {
		close(entered)
		<-block
		return nil, nil
	})
	errs := make(chan error)
	go func() {
		_, err := f.Call(g.Self(), 1, nil, longEnough)
		errs <- err
	}()
	<-entered
	watched := f.Watch(g.Self())
	must(t, f.Close())
	wantErr(t, <-errs, ErrClosed)
	wantClosed(t, watched)
	wantClosed(t, f.Watch(g.Self()))
	close(block)

	_, err := f.Call(g.Self(), 1, nil, 0)
	wantErr(t, err, ErrClosed)
	_, err = f.Call(f.Self(), 1, nil, 0)
	wantErr(t, err, ErrClosed)
	_, err = f.Import(g.Self(), 1)
	wantErr(t, err, ErrClosed)
	_, err = f.NewSegment(SegmentOptions{Size: 1})
	wantErr(t, err, ErrClosed)
	wantErr(t, f.RemoveKept("x"), ErrClosed)
}

func TestCloseReportsAHandlerThatDoesNotReturn(t *testing.T) {
	dir := testDir(t)
	f := openTest(t, dir)
	g, err := Open(Options{Dir: dir, closeWait: 20 * time.Millisecond})
	must(t, err)
	entered, block := make(chan struct{}), make(chan struct{})
	g.Handle(1, func(ProcID, []byte) ([]byte, error) {
		close(entered)
		<-block
		return nil, nil
	})
	called := make(chan error)
	go func() {
		_, err := f.Call(g.Self(), 1, nil, longEnough)
		called <- err
	}()
	<-entered
	wantErr(t, g.Close(), errHandlerRuns, "must return")
	if err := <-called; err == nil {
		t.Error("the call was answered")
	}
	if f.Alive(g.Self()) {
		t.Error("alive after Close")
	}
	close(block)
}

func TestEvents(t *testing.T) {
	dir := testDir(t)
	f := openTest(t, dir)
	e, err := NewEventFD()
	must(t, err)
	if e.Drain() {
		t.Error("a new event is signalled")
	}
	if ok, err := e.Wait(time.Millisecond); ok || err != nil {
		t.Errorf("wait without a signal: %v, %v", ok, err)
	}
	must(t, errors.Join(e.Signal(), e.Signal()))
	if ok, err := e.Wait(0); !ok || err != nil {
		t.Errorf("wait after a signal: %v, %v", ok, err)
	}
	if e.Drain() {
		t.Error("signals do not add up to one")
	}
	f.ExportFD(5, e)
	own, err := f.ImportFD(f.Self(), 5)
	must(t, err)
	if _, err := own.Wait(0); err == nil || own.Drain() {
		t.Error("an imported event was waited for")
	}
	must(t, own.Signal())
	if !e.Drain() {
		t.Error("the imported event signals something else")
	}
	over := make(chan error)
	go func() { _, err := e.Wait(-1); over <- err }()
	must(t, own.Signal()) // whether it sleeps already or not
	must(t, <-over)
	go func() { _, err := e.Wait(-1); over <- err }()
	must(t, e.Close())
	wantErr(t, <-over, ErrClosed)
	must(t, e.Close())
	wantErr(t, e.Signal(), ErrClosed)
	if e.FD() != -1 || e.Drain() {
		t.Error("a closed event still works")
	}
	_, err = f.ImportFD(f.Self(), 5)
	wantErr(t, err, ErrNoSegment)
	must(t, own.Close())
}

func TestEventWakesAnotherProcess(t *testing.T) {
	dir := testDir(t)
	f := openTest(t, dir)
	c := startChild(t, "member", dir)
	e, err := f.ImportFD(c.id, 1)
	must(t, err)
	got := make(chan string)
	go func() {
		answer, err := f.Call(c.id, kindEcho, []byte("wait for event"), longEnough)
		got <- fmt.Sprint(string(answer), err)
	}()
	must(t, e.Signal())
	if s := <-got; s != "true<nil>" {
		t.Errorf("child got %s", s)
	}
	_, err = f.ImportFD(c.id, 2)
	wantErr(t, err, ErrNoSegment)
	c.kill()
	must(t, e.Signal()) // of a dead peer: nobody hears it
	must(t, e.Close())
}

func TestConnectionsToTheDeadAreClosed(t *testing.T) {
	dir := testDir(t)
	f := openTest(t, dir)
	comeAndGo := func() {
		g, err := Open(Options{Dir: dir})
		must(t, err)
		g.Handle(1, func(ProcID, []byte) ([]byte, error) { return nil, nil })
		_, err = f.Call(g.Self(), 1, nil, 0)
		must(t, errors.Join(err, g.Close()))
	}
	comeAndGo()
	before := openFDs()
	for range 20 {
		comeAndGo()
	}
	waitFDs(t, before)
}
