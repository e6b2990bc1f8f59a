package tpcc

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"drtmd/proto"
)

// TestPiecesThatWereCutOffAreMadeAnew: by the same bytes, and with the same records.
func TestPiecesThatWereCutOffAreMadeAnew(t *testing.T) {
	o := Default(2)
	o.Items, o.Customers, o.RemotePayments = 500, 30, 50
	w, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	c := w.NewClient(1, rand.New(rand.NewPCG(1, 2))).(*client)
	seen := map[Kind]int{}
	for range 500 {
		d, program := c.Next()
		p := program.(proto.Chain)
		x := &c.tx
		if x.order = 1 + c.r.IntN(1000); x.kind == Delivery {
			for i := range x.due {
				x.due[i] = due{c.r.IntN(1000), c.r.IntN(30), 5 + c.r.IntN(11), c.r.Int64N(1 << 40)}
			}
		}
		for from := 1; from < p.Pieces(); from++ {
			if x.kind == NewOrder && from == 1 {
				continue // nothing has changed before that
			}
			parameters := p.AppendPieces(nil, from)
			again, err := w.Resume(d.Kind, from, parameters)
			if err != nil {
				t.Fatal(err)
			}
			if got := again.AppendPieces(nil, from); !bytes.Equal(got, parameters) {
				t.Fatalf("%v from piece %d: %x, want %x", x.kind, from, got, parameters)
			}
			for piece := from; piece < p.Pieces(); piece++ {
				var want, got proto.Decl
				if err := errors.Join(p.PlanPiece(nil, nil, piece, &want), again.PlanPiece(nil, nil, piece, &got)); err != nil {
					t.Fatal(err)
				}
				if len(want.Accesses) == 0 && x.kind != Delivery || !slices.Equal(want.Accesses, got.Accesses) {
					t.Fatalf("%v, piece %d: %v, want %v", x.kind, piece, got.Accesses, want.Accesses)
				}
			}
			seen[x.kind]++
			if _, err := w.Resume(d.Kind, from, parameters[1:]); !errors.Is(err, ErrParameters) {
				t.Errorf("cut parameters: %v", err)
			}
			if _, err := w.Resume(d.Kind, p.Pieces(), nil); !errors.Is(err, ErrParameters) {
				t.Errorf("a piece that there is not: %v", err)
			}
		}
	}
	for _, k := range []Kind{NewOrder, Payment, Delivery} {
		if seen[k] == 0 {
			t.Errorf("no %v", k)
		}
	}
}
