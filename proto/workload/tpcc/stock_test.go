package tpcc

import (
	"math/rand/v2"
	"slices"
	"testing"

	"drtmd/proto"
	"drtmd/verbs/fiber"
)

// linesOf are order lines of items, at which a plan peeks. There are fewer than one look is for.
type linesOf []int

func (l linesOf) Peek(_ *fiber.Fiber, table proto.TableID, k proto.Key, dst []byte) error {
	clear(dst)
	if table == OrderLine {
		put32(dst, lineItem, l[k])
	}
	return nil
}

func (l linesOf) PeekRange(_ *fiber.Fiber, _ proto.TableID, _, _ proto.Key, keys []proto.Key) (int, error) {
	for i := range l {
		keys[i] = proto.Key(i)
	}
	return len(l), nil
}

// TestAStockLevelDeclaresItsItemsOnce (clause 2.8.2): those of the last orders' lines, up to the last item, whatever the same
// client has planned before. A line of another item, that has come since, is strange.
func TestAStockLevelDeclaresItsItemsOnce(t *testing.T) {
	o := small(1)
	o.Items = 128
	x := &newTPCC(t, o).NewClient(0, rand.New(rand.NewPCG(1, 2))).(*client).tx
	x.kind = StockLevel
	for _, c := range []struct {
		lines linesOf
		want  []int
	}{
		{linesOf{5, 127, 0, 5, 64, 127, 63}, []int{0, 5, 63, 64, 127}},
		{linesOf{5, 6, 64}, []int{5, 6, 64}},
		{nil, nil},
		{linesOf{0, 127}, []int{0, 127}},
	} {
		x.decl.Accesses = x.decl.Accesses[:0]
		if err := x.planStock(nil, c.lines); err != nil {
			t.Fatal(err)
		}
		var got, seen []int
		for _, a := range x.decl.Accesses {
			for i := range o.Items {
				if a.Table == Stock && a.Key == stockKey(x.warehouse, i) {
					got = append(got, i)
				}
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, c.want) {
			t.Errorf("lines of items %v: %v are declared, want %v", c.lines, got, c.want)
		}
		for i := range 2 * o.Items {
			row := make([]byte, lineBytes)
			put32(row, lineItem, i)
			if x.strange = false; x.takeItem(0, row) && !x.strange {
				seen = append(seen, i)
			}
		}
		if !slices.Equal(seen, c.want) {
			t.Errorf("lines of items %v: %v are known, want %v", c.lines, seen, c.want)
		}
	}
}
