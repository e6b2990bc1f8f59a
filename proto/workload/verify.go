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

// Verify has a workload check what a node holds, after the last transaction has ended.
func Verify(w Workload, node proto.NodeID, read func(t proto.TableID, k proto.Key, dst []byte) error) (t Tally) {
	var err error
	t.Initial, t.Final, err = w.Count(node, func(id proto.TableID, k proto.Key, dst []byte) error {
		t.Records++
		return read(id, k, dst)
	})
	if err != nil {
		t.Wrong = fmt.Sprintf("node %d: %v", node, err)
	}
	return t
}
