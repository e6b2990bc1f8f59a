package daemon

import (
	"context"
	"errors"
	"io"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/zap/zapcore"

	"drtmd/cmd/drtmd/internal/composition"
	"drtmd/cmd/drtmd/internal/config"
	"drtmd/cmd/drtmd/internal/control"
	"drtmd/cmd/drtmd/internal/status"
)

// relay puts itself before the control plane of a node that has not begun: cut has nobody reach it any
// more whose calls go to the address that the node tells.
func (n *testNode) relay() (cut func()) {
	n.w.t.Helper()
	address := filepath.Join(n.w.dir, n.cfg.Node.Name+".relay")
	l, err := net.Listen("unix", address)
	if err != nil {
		n.w.t.Fatal(err)
	}
	n.cfg.Control.Advertise = "unix:" + address
	var mu sync.Mutex
	var conns []net.Conn
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("unix", strings.TrimPrefix(n.cfg.Control.Listen, "unix:"))
			if err != nil {
				in.Close()
				continue
			}
			mu.Lock()
			conns = append(conns, in, out)
			mu.Unlock()
			for _, way := range [][2]net.Conn{{in, out}, {out, in}} {
				wg.Go(func() {
					_, _ = io.Copy(way[0], way[1]) // until one end is closed
					in.Close()
					out.Close()
				})
			}
		}
	})
	cut = func() {
		l.Close()
		mu.Lock()
		for _, c := range conns {
			c.Close()
		}
		mu.Unlock()
		wg.Wait()
	}
	n.w.t.Cleanup(cut)
	return cut
}

func (n *testNode) level() zapcore.Level { return n.d.o.Level.Level() }

func TestALevelHoldsOverANewIncarnationUntilTheReload(t *testing.T) {
	t.Parallel()
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
		c := config.Default(composition.BuiltIn())
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
	w := newWorld(t, 2)
	cut := w.add().relay()
	w.nodes[2].start()
	w.settled(w.nodes...)
	cut()
	names := []string{w.nodes[1].d.members.Name(), w.nodes[0].d.members.Name()}
	lost := w.nodes[2].d.members.Name()
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
	drains.d.planes.Drain()
	drains.d.board.Drain() // and cannot leave yet
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.nodes[0].d.letOthersLeave(ctx)
	}()
	w.until("it waits for the one that drains", func() bool {
		return slices.ContainsFunc(w.nodes[0].d.board.Events(), func(e status.Event) bool {
			return strings.HasSuffix(e.Text, "waits for who drains too: "+drains.d.members.Name())
		})
	}, func() any { return w.nodes[0].d.board.Events() })
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
