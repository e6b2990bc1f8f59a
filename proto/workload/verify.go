package workload

import (
	"fmt"

	"drtmd/proto"
)

// Tally is the result of a workload's check of its tables at rest, on some or all of its nodes.
type Tally struct {
	Initial Quantities `json:"initial"`
	Final   Quantities `json:"final"`
	// Records is how many records the check has looked for, absent ones included.
	Records uint64 `json:"records"`
	// Wrong names content that no transaction can have left; "": there is none.
	Wrong string `json:"wrong,omitempty"`
}

// Plus is the result for the nodes of both.
func (t Tally) Plus(o Tally) Tally {
	if t.Wrong == "" {
		t.Wrong = o.Wrong
	}
	t.Initial, t.Final, t.Records = t.Initial.Plus(o.Initial), t.Final.Plus(o.Final), t.Records+o.Records
	return t
}

// Inspector is a Workload that checks its tables by a look at all records, in place of Count.
type Inspector interface {
	// Inspect is as Workload.Count. each calls visit with every record of a node, in any order; row is valid
	// during the call.
	Inspect(node proto.NodeID, each func(visit func(t proto.TableID, k proto.Key, row []byte))) (initial,
		final Quantities, err error)
}

// Contents are what a node holds at rest.
type Contents interface {
	// Read fails with proto.ErrNotFound for an absent record.
	Read(t proto.TableID, k proto.Key, dst []byte) error
	// Each calls visit with every record, in any order. row is valid during the call.
	Each(visit func(t proto.TableID, k proto.Key, row []byte))
}

// Verify has a workload check what a node holds, after the last transaction has ended.
func Verify(w Workload, node proto.NodeID, c Contents) (t Tally) {
	var err error
	if x, ok := w.(Inspector); ok {
		t.Initial, t.Final, err = x.Inspect(node, func(visit func(proto.TableID, proto.Key, []byte)) {
			c.Each(func(id proto.TableID, k proto.Key, row []byte) {
				t.Records++
				visit(id, k, row)
			})
		})
	} else {
		t.Initial, t.Final, err = w.Count(node, func(id proto.TableID, k proto.Key, dst []byte) error {
			t.Records++
			return c.Read(id, k, dst)
		})
	}
	if err != nil {
		t.Wrong = fmt.Sprintf("node %d: %v", node, err)
	}
	return t
}
