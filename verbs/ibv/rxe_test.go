//go:build cgo && linux

package ibv

import (
	"encoding/binary"
	"testing"

	"drtmd/verbs"
)

// TestAnAtomicWithoutItsResultHasFailed gives the provider completions as rxe makes them, with results
// that have come or not.
func TestAnAtomicWithoutItsResultHasFailed(t *testing.T) {
	const (
		ok    = verbs.WCSuccess
		lost  = verbs.WCRetryExcErr
		flush = verbs.WCWRFlushErr
	)
	type request struct {
		op       verbs.Opcode
		answered bool // the result has come
		wc       bool // rxe completes it by itself
	}
	type completion struct {
		token  uint64 // from 1
		status verbs.WCStatus
	}
	write, cas := request{verbs.OpWrite, false, true}, request{verbs.OpCAS, true, true}
	quiet, missing := request{verbs.OpCAS, true, false}, request{verbs.OpCAS, false, true}
	quietMissing := request{verbs.OpCAS, false, false}
	for _, c := range []struct {
		name     string
		requests []request
		room     int // of the caller of Poll; 0: for all
		want     []completion
	}{
		{"all results have come", []request{write, cas, quiet, write}, 0,
			[]completion{{1, ok}, {2, ok}, {4, ok}}},
		{"a signaled one is missing", []request{write, missing, write, cas}, 0,
			[]completion{{1, ok}, {2, lost}, {3, flush}, {4, flush}}},
		{"an unsignaled one is missing", []request{write, quietMissing, write, cas}, 0,
			[]completion{{1, ok}, {2, lost}, {3, flush}, {4, flush}}},
		{"one by one", []request{quiet, quietMissing, write, cas, write}, 1,
			[]completion{{2, lost}, {3, flush}, {4, flush}, {5, flush}}},
		{"two by two", []request{write, write, write, quietMissing, write, cas, write}, 2,
			[]completion{{1, ok}, {2, ok}, {3, ok}, {4, lost}, {5, flush}, {6, flush}, {7, flush}}},
		{"only the first is told", []request{quietMissing, quietMissing, missing, write}, 0,
			[]completion{{1, lost}, {3, flush}, {4, flush}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			q := &cq{rxe: newSoftRoCE()}
			p := &qp{dev: &device{rxe: q.rxe}, pd: &pd{}, qpn: 7, sendCQ: q, recvCQ: q, sent: newLedger(8),
				received: newLedger(1), cfg: verbs.QPConfig{Type: verbs.RC}}
			q.rxe.addQP(p)
			memory := make([]byte, 8*len(c.requests))
			q.rxe.addRegion(3, region{pd: p.pd, addr: 4096, bytes: memory, access: verbs.AccessLocalWrite})
			var wrs []verbs.WR
			for i, r := range c.requests {
				wr := verbs.WR{Op: r.op, Token: uint64(i + 1), NumSGE: 1}
				wr.SGE[0] = verbs.SGE{Addr: 4096 + uint64(8*i), Length: 8, LKey: 3}
				wrs = append(wrs, wr)
			}
			p.noteSends(wrs)
			var done []verbs.WC
			for i, r := range c.requests {
				if r.answered {
					binary.NativeEndian.PutUint64(memory[8*i:], 5)
				}
				if r.wc {
					done = append(done, verbs.WC{ID: uint64(i + 1), QPN: 7, Op: 1})
				}
			}
			room := c.room
			if room == 0 {
				room = 16
			}
			var got []completion
			for len(done) > 0 || len(q.late) > 0 {
				wcs := make([]verbs.WC, room)
				n := q.takeLate(wcs)
				k := copy(wcs[n:], done)
				done = done[k:]
				for _, wc := range wcs[:q.correct(wcs, n+k)] {
					got = append(got, completion{wc.ID, wc.Status})
				}
			}
			if len(got) != len(c.want) {
				t.Fatalf("completions %v, want %v", got, c.want)
			}
			for i := range got {
				if got[i] != c.want[i] {
					t.Errorf("completion %d is %v, want %v", i, got[i], c.want[i])
				}
			}
		})
	}
}

// TestOnlyTheBufferOfAnAtomicIsMarked: what the domain must not write to stays as it is.
func TestOnlyTheBufferOfAnAtomicIsMarked(t *testing.T) {
	s, own, other := newSoftRoCE(), &pd{}, &pd{}
	memory := make([]byte, 16)
	s.addRegion(1, region{pd: own, addr: 64, bytes: memory, access: verbs.AccessLocalWrite})
	s.addRegion(2, region{pd: own, addr: 64, bytes: memory, access: verbs.AccessRemoteRead})
	s.addRegion(3, region{pd: other, addr: 64, bytes: memory, access: verbs.AccessLocalWrite})
	for _, g := range []verbs.SGE{{Addr: 64, Length: 8, LKey: 9}, {Addr: 64, Length: 8, LKey: 2},
		{Addr: 64, Length: 8, LKey: 3}, {Addr: 73, Length: 8, LKey: 1}, {Addr: 56, Length: 8, LKey: 1},
		{Addr: 64, Length: 4, LKey: 1}} {
		if mark := s.mark(own, g); mark != 0 || [16]byte(memory) != [16]byte{} {
			t.Errorf("%+v was marked by %#x", g, mark)
		}
	}
	e := entry{sge: [verbs.MaxSGE]verbs.SGE{{Addr: 72, Length: 8, LKey: 1}}}
	e.mark = s.mark(own, e.sge[0])
	if e.mark == 0 || binary.NativeEndian.Uint64(memory[8:]) != e.mark || !s.marked(own, &e) {
		t.Errorf("the mark %#x is not there: %x", e.mark, memory)
	}
	binary.NativeEndian.PutUint64(memory[8:], 0)
	if s.marked(own, &e) {
		t.Error("the result was taken for the mark")
	}
}
