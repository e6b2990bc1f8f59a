package htm_test

import (
	"fmt"
	"testing"

	"drtmd/htm"
)

// The record of these tests: state word and value, on one line or on two. The state is 0, or
// locked, or leased (DrTM §5.3, without times: leases of these tests do not end).
const (
	stateAt = 128
	locked  = 1
	leased  = 2 << 9

	before, after = 100, 200 // the value
)

// local and remote accesses of DrTM Table III.
type access uint8

const (
	localRead   access = iota + 1 // L_RD: state and value are read
	localWrite                    // L_WR: state is read, value written
	remoteRead                    // R_RD: state is written (lease), value read
	remoteWrite                   // R_WR: state is written (lock), value read
	remoteBack                    // R_WB: value and state are written
)

func (a access) String() string {
	return [...]string{"?", "L_RD", "L_WR", "R_RD", "R_WR", "R_WB"}[a]
}

// remotely does a remote access of the record.
func (e *env) remotely(a access, valueAt int) {
	e.t.Helper()
	switch a {
	case remoteRead:
		e.cas(stateAt, 0, leased)
		e.read(valueAt)
	case remoteWrite:
		e.cas(stateAt, 0, locked)
		e.read(valueAt)
	case remoteBack:
		e.write(valueAt, after)
		e.cas(stateAt, locked, 0)
	}
}

// locally does a local access inside a region, with the check of the state of Figure 10(b). The
// region may have ended after it.
func locally(r *htm.Region, m *htm.Memory, a access, valueAt int) {
	state, _ := r.Load64(m, stateAt)
	if state&locked != 0 || a == localWrite && state&leased != 0 {
		r.Abort(1)
		return
	}
	if a == localRead {
		r.Load64(m, valueAt)
		return
	}
	r.Store64(m, valueAt, after)
}

// TestTablesIIIAndIV runs each remote access of Table III after and before each local one. After
// it, while the region runs, all conflict (Figure 8(b)); R_RD and L_RD falsely, because the lease
// is a write. Before it, the state that they left decides: a lease shares with a local read only
// (Figure 8(c), (d)); after a write-back the record is free.
func TestTablesIIIAndIV(t *testing.T) {
	type cell struct {
		remote, local access
		remoteFirst   bool
		code          htm.Code // of the region's abort; 0: it commits
	}
	var cells []cell
	for _, local := range []access{localRead, localWrite} {
		for _, remote := range []access{remoteRead, remoteWrite, remoteBack} {
			cells = append(cells, cell{remote, local, false, htm.Conflict})
		}
		cells = append(cells, cell{remoteWrite, local, true, htm.Explicit},
			cell{remoteBack, local, true, 0})
	}
	cells = append(cells, cell{remoteRead, localRead, true, 0},
		cell{remoteRead, localWrite, true, htm.Explicit})

	eachProvider(t, func(t *testing.T, e *env) {
		for _, valueAt := range []int{stateAt + 8, stateAt + lineBytes} {
			for _, c := range cells {
				first, second := c.local, c.remote
				if c.remoteFirst {
					first, second = second, first
				}
				name := fmt.Sprintf("%s then %s, value at %d", first, second, valueAt-stateAt)
				t.Run(name, func(t *testing.T) {
					e.t = t
					e.write(valueAt, before)
					e.write(stateAt, map[bool]uint64{true: locked}[c.remote == remoteBack])
					r := htm.NewRegion(htm.Config{})
					if c.remoteFirst {
						e.remotely(c.remote, valueAt)
						r.Begin()
						locally(r, e.memory, c.local, valueAt)
					} else {
						e.write(stateAt, 0) // R_WB finds the lock that came after the local access
						r.Begin()
						locally(r, e.memory, c.local, valueAt)
						e.remotely(c.remote, valueAt)
					}
					committed := r.Commit(nil)
					if code, _ := r.Aborted(); code != c.code || committed != (c.code == 0) {
						t.Errorf("the region ended with %s, want %s", code, c.code)
					}
					want := uint64(before)
					if c.remote == remoteBack || c.local == localWrite && c.code == 0 {
						want = after
					}
					if got := e.get(valueAt); got != want {
						t.Errorf("the value is %d, want %d", got, want)
					}
				})
			}
		}
	})
}

// TestRemoteReadsSeeCommittedValuesOnly is strong atomicity (DrTM §2.1): a READ during the region
// sees nothing of it and disturbs nothing.
func TestRemoteReadsSeeCommittedValuesOnly(t *testing.T) {
	eachProvider(t, func(t *testing.T, e *env) {
		r := htm.NewRegion(htm.Config{})
		r.Begin()
		r.Store64(e.memory, 0, 7)
		if got := e.read(0); got != 0 {
			t.Errorf("a READ during the region saw %d", got)
		}
		if !r.Commit(nil) {
			t.Error("a READ aborted the region")
		}
		if got := e.read(0); got != 7 {
			t.Errorf("a READ after the region saw %d", got)
		}
	})
}

// TestSharingALeaseDisturbsNobody has a remote read find a lease that it can share (Figure 10(a)):
// its CAS changes nothing, so a local read of the record goes on.
func TestSharingALeaseDisturbsNobody(t *testing.T) {
	eachProvider(t, func(t *testing.T, e *env) {
		e.write(stateAt, leased)
		r := htm.NewRegion(htm.Config{})
		r.Begin()
		locally(r, e.memory, localRead, stateAt+8)
		if found := e.cas(stateAt, 0, leased); found != leased {
			t.Errorf("the CAS found %#x", found)
		}
		e.read(stateAt + 8)
		if !r.Commit(nil) {
			code, _ := r.Aborted()
			t.Errorf("the region aborted by %s", code)
		}
	})
}

// inCommit is a Committer that runs a function as its confirmation.
type inCommit func()

func (f inCommit) Confirm() bool { f(); return true }

// TestOperationsWaitForACommit posts remote operations while a commit holds the line: they come
// after it.
func TestOperationsWaitForACommit(t *testing.T) {
	eachProvider(t, func(t *testing.T, e *env) {
		var early bool
		r := htm.NewRegion(htm.Config{})
		r.Begin()
		r.Store64(e.memory, 0, 7)
		r.Store64(e.memory, lineBytes, 7)
		ok := r.Commit(inCommit(func() {
			e.buffer.Bytes()[0] = 0xff
			e.postRead(0)
			for range 100 {
				early = early || e.poll()
				e.idle()
			}
		}))
		if !ok || early {
			t.Errorf("committed %v; the READ completed during the commit: %v", ok, early)
		}
		e.wait()
		if got := e.buffer.Bytes()[0]; got != 7 {
			t.Errorf("the READ gave %d", got)
		}
	})
}
