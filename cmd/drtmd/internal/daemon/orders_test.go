package daemon

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"go.uber.org/zap/zapcore"

	"drtmd/cmd/drtmd/internal/config"
	"drtmd/cmd/drtmd/internal/control"
	"drtmd/cmd/drtmd/internal/status"
)

// cut has a node not reach another one any more, as far as its own calls go.
func (n *testNode) cut(other *testNode) {
	n.w.t.Helper()
	nowhere, err := control.Dial("unix:"+n.w.dir+"/nowhere", control.DialOptions{Caller: n.d.caller})
	if err != nil {
		n.w.t.Fatal(err)
	}
	n.d.mu.Lock()
	was := n.d.peers[other.cfg.Control.Listen]
	n.d.peers[other.cfg.Control.Listen] = nowhere
	n.d.mu.Unlock()
	if was != nil {
		if err := was.Close(); err != nil {
			n.w.t.Error(err)
		}
	}
}

func (n *testNode) level() zapcore.Level { return n.d.o.Level.Level() }

func TestALevelHoldsOverANewIncarnationUntilTheReload(t *testing.T) {
	w := newWorld(t, 2)
	w.settled(w.nodes...)
	if was, err := w.nodes[0].client.SetLogLevel(t.Context(), "error", true); err != nil || was != "info" {
		t.Fatalf("was %q, error %v", was, err)
	}
	w.nodes[1].remove(w.nodes[0])
	w.until("it joins again", func() bool {
		s := w.nodes[1].self()
		return s != nil && s.Member.Incarnation > 2
	}, func() any { return w.nodes[1].self() })
	w.settled(w.nodes...)
	for _, n := range w.nodes {
		if l := n.level(); l != zapcore.ErrorLevel {
			t.Errorf("%s: level %v, want error", n.cfg.Node.Name, l)
		}
	}
	w.nodes[1].d.o.Reload = func() (*config.Config, error) {
		c := config.Default()
		c.Log.Level = "warn"
		return &c, nil
	}
	if err := w.nodes[1].d.Reload(); err != nil || w.nodes[1].level() != zapcore.WarnLevel {
		t.Errorf("level %v after the reload, error %v, want warn", w.nodes[1].level(), err)
	}
	for _, wrong := range []string{"", "loud", "fatal"} {
		_, err := w.nodes[0].client.SetLogLevel(t.Context(), wrong, false)
		if err == nil || !strings.Contains(err.Error(), "known: debug, info, warn, error") {
			t.Errorf("level %q gives %v", wrong, err)
		}
	}
}

func TestOrdersReachTheOthersWhenOneMemberDoesNotAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	w.settled(w.nodes...)
	w.nodes[0].cut(w.nodes[2])
	names := []string{w.nodes[1].d.name(), w.nodes[0].d.name()}
	lost := w.nodes[2].d.name()
	var part *control.PartError
	was, err := w.nodes[0].client.SetLogLevel(t.Context(), "debug", true)
	if was != "info" || !errors.As(err, &part) || !strings.Contains(err.Error(), lost) {
		t.Errorf("was %q, error %v, want one that names %s", was, err, lost)
	}
	for i, want := range []zapcore.Level{zapcore.DebugLevel, zapcore.DebugLevel, zapcore.InfoLevel} {
		if l := w.nodes[i].level(); l != want {
			t.Errorf("node %d: level %v, want %v", i, l, want)
		}
	}
	told, err := w.nodes[0].client.Drain(t.Context(), true)
	if !slices.Equal(told, names) || !errors.As(err, &part) || !strings.Contains(err.Error(), lost) ||
		strings.Contains(err.Error(), names[0]) {
		t.Errorf("told %q, error %v, want %q and an error that names %s", told, err, names, lost)
	}
	w.nodes[1].ends()
	w.nodes[0].ends()
	w.nodes[2].await(status.Refusing) // it lives on, without a registry
}

func TestWhoHasTheRegistryWaitsForThoseThatDrainToo(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	w.settled(w.nodes...)
	drains := w.nodes[1]
	drains.d.mu.Lock()
	drains.d.draining = true // and cannot leave yet
	drains.d.mu.Unlock()
	drains.d.setPhase(status.Draining, "told to stop")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.nodes[0].d.letOthersLeave(ctx)
	}()
	w.until("it waits for the one that drains", func() bool {
		return slices.ContainsFunc(w.nodes[0].d.events.last(), func(e status.Event) bool {
			return strings.HasSuffix(e.Text, "waits for who drains too: "+drains.d.name())
		})
	}, func() any { return w.nodes[0].d.events.last() })
	select {
	case <-done:
		t.Error("it has not waited")
	default:
	}
	drains.stop()
	<-done // and not for the third, which stays
	if ctx.Err() != nil {
		t.Error("it has waited for longer than the other one was there")
	}
}
