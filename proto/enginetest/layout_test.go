package enginetest

import (
	"bytes"
	"slices"
	"testing"

	"drtmd/proto"
	"drtmd/proto/node"
	"drtmd/store/layout"
	"drtmd/verbs/fiber"
)

// lined is two-phase locking on records with a version per line, of which it knows nothing.
func lined() node.Protocol {
	list := node.Protocols()
	p := list[slices.IndexFunc(list, func(p node.Protocol) bool { return p.Name == "twopl" })]
	p.Layout = layout.KindLineVersions
	return p
}

// TestAnEngineOverAnotherLayout runs the suite on the other layout.
func TestAnEngineOverAnotherLayout(t *testing.T) {
	p := lined()
	Run(t, p, Hosts()...)
	c := env{p, Hosts()[1]}.start(t)
	if l := c.Members[0].Workers[0].Tables[large-1].Record(); l.Kind() != layout.KindLineVersions || l.Room == 0 {
		t.Errorf("the suite ran on records of layout %v", l.Kind())
	}
}

// TestLinesOfSeveralVersionsAreNoRecord: a READ whose lines disagree, while the header is unlocked, is
// not believed; without the look at the lines it is.
func TestLinesOfSeveralVersionsAreNoRecord(t *testing.T) {
	for _, mutation := range []string{"", "peek-no-second-look"} {
		c := env{lined(), Hosts()[1]}.start(t, func(cfg *node.Config) { cfg.Mutation = mutation })
		k := keyOn(0, 1)
		tab := c.Members[0].Workers[0].Tables[large-1]
		place, ok := tab.Find(uint64(k))
		if !ok {
			t.Fatal("the record was not loaded")
		}
		m, off := tab.At(place)
		third := m.Bytes[off+2*layout.LineBytes : off+3*layout.LineBytes]
		third[0]++                                  // its version
		copy(third[8:], bytes.Repeat([]byte{9}, 9)) // and value
		c.on(1, func(f *fiber.Fiber, e proto.Engine) error {
			b := make([]byte, valueBytes[large])
			switch err := e.Peek(f, large, k, b); {
			case mutation == "" && proto.AbortReason(err) != proto.ReasonConflict:
				t.Errorf("a torn record is %v, %v", b, err)
			case mutation != "" && err != nil:
				t.Errorf("with mutation %s: %v", mutation, err)
			}
			return nil
		})
	}
}
