package board

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
	"go.uber.org/zap"

	"drtmd/cmd/drtmd/internal/load"
	"drtmd/cmd/drtmd/internal/service"
	"drtmd/cmd/drtmd/internal/status"
	"drtmd/proto/member"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newBoard() (*Board, *bytes.Buffer) {
	out := &bytes.Buffer{}
	return New(Options{Log: zap.NewNop(), Notifier: &service.Notifier{}, Stdout: out}), out
}

// is what the board says of the node.
func (b *Board) is() (n status.Node) {
	b.Describe(context.Background(), &n)
	return n
}

func TestEventsKeepTheLastOnes(t *testing.T) {
	b, _ := newBoard()
	for i := range keptEvents + 7 {
		b.Event(status.Info, fmt.Sprint(i))
	}
	list := b.Events()
	last := fmt.Sprint(keptEvents + 6)
	if len(list) != keptEvents || list[0].Text != "7" || list[keptEvents-1].Text != last {
		t.Errorf("%d events, from %q to %q", len(list), list[0].Text, list[len(list)-1].Text)
	}
}

// TestANodeThatDrainsDoesNothingElse: whatever the other rooms say after it.
func TestANodeThatDrainsDoesNothingElse(t *testing.T) {
	b, _ := newBoard()
	b.Drain()
	for name, say := range map[string]func(){
		"a phase":   func() { b.Set(status.Ready, "") },
		"a wait":    func() { b.Connecting(status.Reloading, "") },
		"a failure": func() { b.NotBuilt(errors.New("x")) },
		"it serves": func() { b.Serve(nil, 1, 1) },
	} {
		if say(); b.is().Phase != status.Draining || b.is().Wait != "" {
			t.Errorf("%s makes it %s (%s)", name, b.is().Phase, b.is().Wait)
		}
	}
	if err := b.Ready(); err == nil || !strings.HasPrefix(err.Error(), "draining") {
		t.Errorf("/readyz says %v", err)
	}
}

// TestReadyIsSaidOnceOnStandardOutput and as an event each time.
func TestReadyIsSaidOnceOnStandardOutput(t *testing.T) {
	b, out := newBoard()
	b.SetControl("here:1")
	b.Serve(nil, 1, 2) // no member any more: nothing to say
	if out.Len() > 0 || len(b.Events()) > 0 {
		t.Errorf("%q, %v", out, b.Events())
	}
	b, out = newBoard()
	b.SetControl("here:1")
	self := member.Member{Node: 1, Incarnation: 2, Name: "n"}
	b.Serve(&self, 7, 3)
	b.Serve(&self, 8, 3)
	if want := "READY node 1 (n, incarnation 2), control here:1, admin none\n"; out.String() != want {
		t.Errorf("%q, want %q", out, want)
	}
	if list := b.Events(); len(list) != 2 || list[1].Text != "ready: shard map 8, 3 partitions" {
		t.Errorf("events %v", list)
	}
}

// TestAFailureIsToldOfOnce, and again when the node has served meanwhile; a caller that went away is
// no failure.
func TestAFailureIsToldOfOnce(t *testing.T) {
	b, _ := newBoard()
	silent := errors.New("node 1 is silent")
	for range 3 {
		b.NotBuilt(silent)
		b.StepFailed(load.StepGo, silent)
	}
	if list := b.Events(); len(list) != 2 {
		t.Errorf("events %v", list)
	}
	b.Serve(nil, 1, 1)
	b.NotBuilt(silent)
	if list := b.Events(); len(list) != 3 {
		t.Errorf("events after it has served %v", list)
	}
	b.ForgetFailure()
	b.StepFailed(load.StepOpen, context.Canceled)
	if list := b.Events(); list[len(list)-1].Level != status.Info {
		t.Errorf("a caller that went away is told of as %+v", list[len(list)-1])
	}
	b.Connecting(status.Loading, "")
	if n := b.is(); n.Wait != status.Loading {
		t.Errorf("a caller that went away is in the way: %s", n.Reason)
	}
}

// TestTheWaitForARunNamesIt.
func TestTheWaitForARunNamesIt(t *testing.T) {
	b, _ := newBoard()
	b.Connecting(status.OtherRun, "a")
	if n := b.is(); n.Phase != status.Connecting || n.Wait != status.OtherRun ||
		n.Reason != "waits for the end of run a" {
		t.Errorf("%s (%s): %s", n.Phase, n.Wait, n.Reason)
	}
}

// TestTheBoardIsUsedByManyAtATime: for the race detector.
func TestTheBoardIsUsedByManyAtATime(t *testing.T) {
	b, _ := newBoard()
	self := member.Member{Node: 1}
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for range 200 {
				switch i {
				case 0:
					b.Serve(&self, 1, 1)
				case 1:
					b.Connecting(status.Reloading, "a")
				case 2:
					b.NotBuilt(errors.New("x"))
					b.SetAdmin("here:2")
				default:
					_ = b.Ready()
					_ = b.is()
				}
			}
		})
	}
	wg.Wait()
}
