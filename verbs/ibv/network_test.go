//go:build cgo && linux

package ibv

import (
	"os/exec"
	"sync/atomic"
	"testing"
	"time"

	"drtmd/verbs"
)

// setLink takes the network interface behind the device up or down.
func setLink(t *testing.T, name, state string) {
	t.Helper()
	if out, err := exec.Command("ip", "link", "set", name, state).CombinedOutput(); err != nil {
		t.Fatalf("ip link set %s %s: %v\n%s", name, state, err, out)
	}
}

func waitEvent(t *testing.T, c *verbs.Context, want verbs.EventType) {
	t.Helper()
	limit := time.After(patience)
	for {
		select {
		case e := <-c.Events():
			t.Logf("event: %s, port %d (%s)", e.Type, e.Port, e.Text)
			if e.Type == want && e.Port == 1 {
				return
			}
		case <-limit:
			t.Fatalf("no event %q", want)
		}
	}
}

// TestInterfaceGoesDownAndUp: operations run all the time; each completes, a failure is one that
// the contract knows, and once the interface is up a fresh connection works.
func TestInterfaceGoesDownAndUp(t *testing.T) {
	requireGuest(t)
	c := requireDevice(t)
	p, err := c.Port(1)
	check(t, err)
	g, _ := verbs.ChooseGID(p.GIDs)
	o := defaultConfig(verbs.RC)
	o.Connect.RTS = verbs.RTSAttr{Timeout: 12, RetryCount: 3}
	a, b := newPair(t, c, o)
	var stop atomic.Bool
	ended := make(chan string, 1)
	go func() {
		n := 0
		for ; !stop.Load(); n++ {
			op := []verbs.Opcode{verbs.OpWrite, verbs.OpRead, verbs.OpFAA}[n%3]
			if _, err := a.qp.PostSend([]verbs.WR{at(a.wr(op, uint64(n), 0, 8), b, 64)}); err != nil {
				ended <- "post: " + err.Error()
				return
			}
			wcs, err := pollN(a.cq, 1, patience)
			if err != nil {
				ended <- "hangs: " + err.Error()
				return
			}
			switch wcs[0].Status {
			case verbs.WCSuccess:
			case verbs.WCRetryExcErr:
				ended <- ""
				return
			default:
				ended <- wcs[0].Err().Error()
				return
			}
		}
		ended <- ""
	}()
	time.Sleep(50 * time.Millisecond)
	setLink(t, g.NetDev, "down")
	waitEvent(t, c, verbs.EventPortDown)
	if p, err = c.Port(1); err != nil || p.State != verbs.PortDown {
		t.Errorf("down, the port is %s (%v)", p.State, err)
	}
	time.Sleep(300 * time.Millisecond)
	setLink(t, g.NetDev, "up")
	waitEvent(t, c, verbs.EventPortActive)
	time.Sleep(100 * time.Millisecond)
	stop.Store(true)
	if s := <-ended; s != "" {
		t.Fatal(s)
	}
	a, b = newPair(t, c, o)
	a.post(at(a.wr(verbs.OpWrite, 1, 0, 8), b, 64))
	a.ok(1)
}
