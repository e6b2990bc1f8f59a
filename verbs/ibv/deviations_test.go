//go:build cgo && linux

package ibv

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"drtmd/verbs"
)

// deviationChecks go below the layer and say why a row of the table is not true.
var deviationChecks = map[string]func(t *testing.T) error{
	"depth of the send queue":              deepSendQueue,
	"CQ overrun":                           cqOverrun,
	"datagram over the path MTU":           longDatagram,
	"unaligned atomic":                     unalignedAtomic,
	"receive buffer too small":             smallBuffer,
	"receive buffer with a bad lkey":       badBuffer,
	"request with a bad lkey":              badRequest,
	"request while the interface is down":  noRoute,
	"datagram while the interface is down": noRouteDatagram,
	"retry count 7":                        endlessRetries,
	"receive posted in the error state":    keptReceive,
	"QP that failed as a target":           silentTarget,
	"GRH flag of an RC receive":            grhFlag,
	"CAS that does not match":              casWritesBack,
	"CPU atomics against remote ones":      cpuAgainstRemote,
}

// TestDeviationsOfRXE holds the table against the kernel. It must be true in the pinned guest;
// elsewhere differences are only reported.
func TestDeviationsOfRXE(t *testing.T) {
	c := requireDevice(t)
	if c.Attr().Driver != driverRXE {
		t.Skipf("the device %s is of driver %s, the table is about rxe", c.Attr().Name,
			c.Attr().Driver)
	}
	for _, d := range deviations() {
		t.Run(d.Case, func(t *testing.T) {
			f := deviationChecks[d.Case]
			if f == nil {
				t.Fatal("no check for this row")
			}
			err := f(t)
			switch {
			case err != nil && pinned():
				t.Fatalf("the table says that rxe 6.1 %s: %v", d.RXE, err)
			case err != nil:
				t.Logf("this kernel differs from the table (%s): %v", d.RXE, err)
			}
		})
	}
}

func TestEachDeviationIsCheckedOnce(t *testing.T) {
	seen := map[string]bool{}
	for _, d := range deviations() {
		if seen[d.Case] || deviationChecks[d.Case] == nil {
			t.Errorf("row %q: twice in the table or without a check", d.Case)
		}
		seen[d.Case] = true
	}
	for name := range deviationChecks {
		if !seen[name] {
			t.Errorf("check %q has no row", name)
		}
	}
}

func TestDocumentHasTheTable(t *testing.T) {
	b, err := os.ReadFile("../../docs/RXE.md")
	if errors.Is(err, os.ErrNotExist) && os.Getenv("DRTMD_GUEST") != "" {
		t.Skip("the source tree is not in the guest")
	}
	check(t, err)
	var table strings.Builder
	table.WriteString("| case | rxe 6.1 | what drtmd makes of it |\n| --- | --- | --- |\n")
	for _, d := range deviations() {
		fmt.Fprintf(&table, "| %s | %s | %s |\n", d.Case, d.RXE, d.Made)
	}
	if !strings.Contains(string(b), table.String()) {
		t.Fatalf("docs/RXE.md does not hold this table; put it there:\n%s", table.String())
	}
}

func deepSendQueue(t *testing.T) error {
	const depth = 4
	r := newRaw(t, rawConfig{Type: verbs.RC, Depth: depth, CQDepth: 64, MinRNR: 31})
	taken := 0
	for range 16 * depth { // nothing can complete: there is no receive buffer
		if _, err := r.a.PostSend([]verbs.WR{r.wr(verbs.OpSend, 1, 0, 8, 0)}); err != nil {
			if !errors.Is(err, syscall.ENOMEM) {
				return err
			}
			break
		}
		taken++
	}
	t.Logf("a queue of %d took %d requests", depth, taken)
	if taken <= depth {
		return fmt.Errorf("it took %d of %d", taken, depth)
	}
	r = newRaw(t, rawConfig{Type: verbs.RC, Depth: depth, CQDepth: 64})
	for range 8 * depth { // each is done before the next; none is signaled, nothing is polled
		wr := r.wr(verbs.OpWrite, 1, 0, 8, 64)
		wr.Flags = 0
		if _, err := r.a.PostSend([]verbs.WR{wr}); err != nil {
			return fmt.Errorf("slots do not come back by themselves: %w", err)
		}
		time.Sleep(5 * time.Millisecond)
	}
	return nil
}

func cqOverrun(t *testing.T) error {
	const posted = 12
	r := newRaw(t, rawConfig{Type: verbs.RC, CQDepth: 2})
	for i := range uint64(posted) {
		r.a.send(r.wr(verbs.OpWrite, i, 0, 8, 64))
		time.Sleep(5 * time.Millisecond)
	}
	got := len(r.a.take(posted, 300*time.Millisecond))
	state, err := r.a.queryState()
	check(t, err)
	t.Logf("of %d completions %d were kept, then the QP was in state %d", posted, got, state)
	if got >= posted {
		return fmt.Errorf("all %d completions were kept in a CQ of 2", got)
	}
	if state != stateRTS {
		return fmt.Errorf("the QP went to state %d", state)
	}
	return r.event(verbs.EventCQErr)
}

// event waits for an asynchronous event.
func (r *raw) event(want verbs.EventType) error {
	limit := time.After(time.Second)
	for {
		select {
		case e := <-r.events:
			if e.Type == want {
				return nil
			}
		case <-limit:
			return fmt.Errorf("no event %q came", want)
		}
	}
}

func longDatagram(t *testing.T) error {
	r := newRaw(t, rawConfig{Type: verbs.UD})
	mtu := r.port().ActiveMTU
	address, err := r.pd.CreateAH(verbs.AHAttr{Port: 1, GIDIndex: verbs.GIDAt(r.gid().Index), GID: r.gid().GID,
		HopLimit: 64})
	check(t, err)
	defer func() { check(t, address.Close()) }()
	r.b.recv(1, 0, 8192)
	r.b.recv(2, 0, 8192)
	for i, size := range []int{mtu + 1, mtu} {
		wr := r.wr(verbs.OpSend, uint64(i), 0, size, 0)
		wr.AH, wr.RemoteQPN, wr.RemoteQKey = address.Handle(), r.b.qpn, testQKey
		r.a.send(wr)
		if wc, err := r.a.one(); err != nil || wc.Status != verbs.WCSuccess {
			return fmt.Errorf("%d bytes: %+v (%v)", size, wc, err)
		}
	}
	got := r.b.take(2, 300*time.Millisecond)
	if len(got) != 1 || int(got[0].ByteLen) != mtu+verbs.GRHBytes {
		return fmt.Errorf("received: %+v", got)
	}
	return nil
}

func unalignedAtomic(t *testing.T) error {
	r := newRaw(t, rawConfig{Type: verbs.RC})
	n, err := r.a.PostSend([]verbs.WR{r.wr(verbs.OpFAA, 1, 0, 8, 1001)})
	if n != 0 || !errors.Is(err, syscall.EINVAL) {
		return fmt.Errorf("posted %d, %v", n, err)
	}
	return nil
}

// refused sends 64 bytes to b and compares the driver's own statuses.
func (r *raw) refused(receiver, sender verbs.WCStatus) error {
	r.a.send(r.wr(verbs.OpSend, 2, 0, 64, 0))
	at, err := r.b.one()
	if err != nil || at.Raw != receiver {
		return fmt.Errorf("at the receiver %s (%v)", at.Raw, err)
	}
	from, err := r.a.one()
	if err != nil || from.Raw != sender {
		return fmt.Errorf("at the sender %s (%v)", from.Raw, err)
	}
	return nil
}

func smallBuffer(t *testing.T) error {
	r := newRaw(t, rawConfig{Type: verbs.RC})
	r.b.recv(1, 0, 63)
	if err := r.refused(verbs.WCLocQPOpErr, verbs.WCRemOpErr); err != nil {
		return err
	}
	r = newRaw(t, rawConfig{Type: verbs.UD})
	address, err := r.pd.CreateAH(verbs.AHAttr{Port: 1, GIDIndex: verbs.GIDAt(r.gid().Index), GID: r.gid().GID,
		HopLimit: 64})
	check(t, err)
	defer func() { check(t, address.Close()) }()
	r.b.recv(1, 0, 63+verbs.GRHBytes)
	wr := r.wr(verbs.OpSend, 2, 0, 64, 0)
	wr.AH, wr.RemoteQPN, wr.RemoteQKey = address.Handle(), r.b.qpn, testQKey
	r.a.send(wr)
	if wc, err := r.b.one(); err != nil || wc.Raw != verbs.WCLocQPOpErr {
		return fmt.Errorf("UD: %+v (%v)", wc, err)
	}
	return r.b.inError()
}

func (q *rawQP) inError() error {
	for end := time.Now().Add(time.Second); ; time.Sleep(time.Millisecond) {
		state, err := q.queryState()
		if err != nil || state == stateErr {
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("the QP is in state %d", state)
		}
	}
}

func badBuffer(t *testing.T) error {
	r := newRaw(t, rawConfig{Type: verbs.RC})
	bad := verbs.RecvWR{Token: 1, NumSGE: 1, SGE: r.sge(0, 64)}
	bad.SGE[0].LKey ^= 0x5a5a00
	_, err := r.b.PostRecv([]verbs.RecvWR{bad})
	check(t, err)
	return r.refused(verbs.WCLocQPOpErr, verbs.WCRemOpErr)
}

func badRequest(t *testing.T) error {
	for want, change := range map[verbs.WCStatus]func(r *raw, g *verbs.SGE){
		verbs.WCLocQPOpErr: func(_ *raw, g *verbs.SGE) { g.LKey ^= 0x5a5a00 },
		verbs.WCLocProtErr: func(r *raw, g *verbs.SGE) { g.Addr = r.addr(len(r.mr.Bytes()) - 7) },
	} {
		r := newRaw(t, rawConfig{Type: verbs.RC})
		wr := r.wr(verbs.OpWrite, 1, 0, 8, 64)
		change(r, &wr.SGE[0])
		r.a.send(wr)
		if wc, err := r.a.one(); err != nil || wc.Raw != want {
			return fmt.Errorf("%s, want %s (%v)", wc.Raw, want, err)
		}
	}
	return nil
}

func noRoute(t *testing.T) error {
	requireGuest(t)
	r := newRaw(t, rawConfig{Type: verbs.RC})
	link := r.gid().NetDev
	setLink(t, link, "down")
	defer func() {
		setLink(t, link, "up")
		check(t, r.event(verbs.EventPortActive))
	}()
	check(t, r.event(verbs.EventPortDown))
	start := time.Now()
	r.a.send(r.wr(verbs.OpWrite, 1, 0, 8, 64))
	wc, err := r.a.one()
	if err != nil || wc.Raw != verbs.WCLocQPOpErr || wc.Status != verbs.WCRetryExcErr {
		return fmt.Errorf("%+v (%v)", wc, err)
	}
	if took := time.Since(start); took > 60*time.Millisecond { // one timeout is 67 ms
		return fmt.Errorf("it took %s", took)
	}
	return nil
}

func noRouteDatagram(t *testing.T) error {
	requireGuest(t)
	r := newRaw(t, rawConfig{Type: verbs.UD})
	link := r.gid().NetDev
	address, err := r.pd.CreateAH(verbs.AHAttr{Port: 1, GIDIndex: verbs.GIDAt(r.gid().Index),
		GID: r.gid().GID, HopLimit: 64})
	check(t, err)
	defer func() { check(t, address.Close()) }()
	setLink(t, link, "down")
	defer func() {
		setLink(t, link, "up")
		check(t, r.event(verbs.EventPortActive))
	}()
	check(t, r.event(verbs.EventPortDown))
	wr := r.wr(verbs.OpSend, 1, 0, 8, 0)
	wr.AH, wr.RemoteQPN, wr.RemoteQKey = address.Handle(), r.b.qpn, testQKey
	r.a.send(wr)
	if wc, err := r.a.one(); err != nil || wc.Raw != verbs.WCLocQPOpErr {
		return fmt.Errorf("%+v (%v)", wc, err)
	}
	return r.a.inError()
}

// endlessRetries: with a timeout of 1 ms seven retries would take 8 ms, or 32 with ticks of 4.
func endlessRetries(t *testing.T) error {
	for _, c := range []struct {
		count int
		ends  bool
		limit time.Duration
	}{{6, true, patience}, {7, false, 3 * time.Second}} {
		r := newRaw(t, rawConfig{Type: verbs.RC, RTS: verbs.RTSAttr{Timeout: 8,
			RetryCount: c.count}})
		check(t, r.b.Close())
		start := time.Now()
		r.a.send(r.wr(verbs.OpWrite, 1, 0, 8, 64))
		got := r.a.take(1, c.limit)
		t.Logf("count %d: %+v after %s", c.count, got, time.Since(start))
		if ended := len(got) == 1 && got[0].Status == verbs.WCRetryExcErr; ended != c.ends {
			return fmt.Errorf("count %d: %+v", c.count, got)
		}
	}
	return nil
}

func keptReceive(t *testing.T) error {
	r := newRaw(t, rawConfig{Type: verbs.RC})
	check(t, r.a.ToError())
	check(t, r.a.inError())
	time.Sleep(100 * time.Millisecond) // until the kernel's own flush, a task, has run
	n, err := r.a.postRecv([]verbs.RecvWR{{Token: 1, NumSGE: 1, SGE: r.sge(0, 64)}})
	if n != 1 {
		return fmt.Errorf("refused at post: %v", err)
	}
	if got := r.a.take(1, 300*time.Millisecond); len(got) > 0 {
		return fmt.Errorf("it completed: %+v", got)
	}
	check(t, r.a.ToError())
	if wc, err := r.a.one(); err != nil || wc.Status != verbs.WCWRFlushErr {
		return fmt.Errorf("told again: %+v (%v)", wc, err)
	}
	return nil
}

func silentTarget(t *testing.T) error {
	r := newRaw(t, rawConfig{Type: verbs.RC})
	wr := r.wr(verbs.OpWrite, 1, 0, 8, 64)
	wr.RKey ^= 0x5a5a00
	r.a.send(wr)
	if wc, err := r.a.one(); err != nil || wc.Status != verbs.WCRemAccessErr {
		return fmt.Errorf("at the initiator: %+v (%v)", wc, err)
	}
	if err := r.b.inError(); err != nil {
		return fmt.Errorf("at the target: %w", err)
	}
	select {
	case e := <-r.events:
		return fmt.Errorf("it was announced: %+v", e)
	case <-time.After(300 * time.Millisecond):
		return nil
	}
}

func grhFlag(t *testing.T) error {
	r := newRaw(t, rawConfig{Type: verbs.RC})
	r.b.recv(1, 0, 64)
	r.a.send(r.wr(verbs.OpSend, 2, 0, 64, 0))
	if wc, err := r.b.one(); err != nil || wc.Flags&verbs.WCWithGRH == 0 || wc.ByteLen != 64 {
		return fmt.Errorf("%+v (%v)", wc, err)
	}
	return nil
}
