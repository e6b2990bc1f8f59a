package tpcc

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"drtmd/proto"
	"drtmd/proto/chop"
	"drtmd/verbs/fiber"
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

// executed is in which of a chain's pieces each operation runs.
var executed = map[string]map[string]int{
	NewOrder.String(): {"W": 0, "D0": 0, "I": 0, "D": 1, "C": 1, "S": 1, "L": 1, "O": 1, "N": 1, "O-IDX": 2},
	Payment.String():  {"W": 0, "D": 0, "H": 0, "C": 1},
	Delivery.String(): {"N": 0, "C": 0, "O": 1, "L": 1},
}

// byRecords is the declaration as the chains need it: a history has conflicts of records, not of columns; the static
// part of a district is read apart from the next number; and a delivery knows before its first piece what the lines
// amount to, defers nothing, and reads the balance.
func byRecords() *chop.Workload {
	w := pieces()
	w.Deferrals = nil
	for i := range w.Transactions {
		t := &w.Transactions[i]
		for k := range t.Ops {
			o := &t.Ops[k]
			for a := range o.Accesses {
				x := &o.Accesses[a]
				x.Of, _, _ = strings.Cut(x.Of, ".")
				if x.Of == "customer" && x.Mode == chop.Add {
					x.Mode = chop.Write
				}
			}
			if t.Name == Delivery.String() && o.Name == "C" {
				o.After = nil
			}
			if t.Name == Payment.String() && o.Name == "H" {
				o.After = []string{"W", "D"}
			}
		}
		if t.Name == NewOrder.String() {
			at := slices.IndexFunc(t.Ops, func(o chop.Op) bool { return o.Name == "D" })
			district := chop.Op{Name: "D0", Accesses: t.Ops[at].Accesses[:1:1]}
			t.Ops[at].Accesses = t.Ops[at].Accesses[1:]
			t.Ops = slices.Insert(t.Ops, at, district)
		}
	}
	return w
}

// TestChainsArePiecesOfTheAnalysis: what the analysis makes one piece runs in one, in the order that is needed, and
// only the first piece aborts.
func TestChainsArePiecesOfTheAnalysis(t *testing.T) {
	w := byRecords()
	r := chopped(t, w, true)
	split := 0
	for _, x := range w.Transactions {
		if x.ReadOnly {
			continue
		}
		in := executed[x.Name]
		for _, o := range x.Ops {
			if _, ok := in[o.Name]; !ok {
				t.Errorf("%s: %s runs in no piece", x.Name, o.Name)
			}
			for _, a := range o.After {
				if in[a] > in[o.Name] {
					t.Errorf("%s: %s runs before %s, whose result it needs", x.Name, o.Name, a)
				}
			}
			if o.Aborts && in[o.Name] != 0 {
				t.Errorf("%s: %s may abort in piece %d", x.Name, o.Name, in[o.Name])
			}
		}
		for _, p := range r.Find(x.Name).Pieces {
			for _, o := range p.Ops {
				if _, ok := in[o]; ok && in[o] != in[p.Ops[0]] {
					t.Errorf("%s: %s and %s are one piece of the analysis, and run in two", x.Name, p.Ops[0], o)
				}
			}
		}
		split = max(split, len(r.Find(x.Name).Pieces))
	}
	if split < 3 {
		t.Errorf("the analysis splits into %d pieces at most", split)
	}
}

// halfWritten is an order in the middle of its write-back: it is there, and only some of its lines are.
type halfWritten struct{ lines, there int }

func (h halfWritten) Peek(_ *fiber.Fiber, table proto.TableID, _ proto.Key, dst []byte) error {
	clear(dst)
	switch table {
	case Order:
		dst[orderLines] = byte(h.lines)
	case OrderLine:
		put64(dst, lineAmount, 7)
	}
	return nil
}

func (h halfWritten) PeekRange(_ *fiber.Fiber, table proto.TableID, from, _ proto.Key, keys []proto.Key) (int, error) {
	if table != OrderLine {
		keys[0] = from | 5 // of order 5
		return 1, nil
	}
	for i := range h.there {
		keys[i] = from + 1 + proto.Key(i)
	}
	return h.there, nil
}

// TestADeliveryWaitsForAllLines of an order: its first piece adds up what they amount to, and no piece looks again.
func TestADeliveryWaitsForAllLines(t *testing.T) {
	w, err := New(Default(1))
	if err != nil {
		t.Fatal(err)
	}
	x := &transaction{w: w, kind: Delivery}
	x.bind()
	for _, c := range []struct {
		there int
		want  proto.Reason
	}{{4, proto.ReasonPlan}, {5, 0}} {
		err := (*planned)(x).PlanPiece(nil, halfWritten{5, c.there}, 0, &proto.Decl{})
		if proto.AbortReason(err) != c.want || c.want == 0 && x.due[0].sum != 35 {
			t.Errorf("%d of 5 lines: %v, %d; want reason %v", c.there, err, x.due[0].sum, c.want)
		}
	}
}
