package xenic

import (
	"strings"
	"testing"

	"drtmd/proto"
	"drtmd/proto/xenic/nics"
)

// outdated finds that its plan does not hold any more.
type outdated struct{ err error }

func (outdated) Take([]proto.Access, []byte) error { return nil }
func (o outdated) Execute(proto.Txn) error         { return o.err }
func (outdated) Result(dst []byte) []byte          { return dst }

// TestAFunctionThatAbortsIsTriedAgain: it is neither refused nor broken.
func TestAFunctionThatAbortsIsTriedAgain(t *testing.T) {
	for err, want := range map[error]nics.Ends{nil: nics.Commits, proto.ErrRollback: nics.Aborts,
		proto.Aborting(proto.ReasonPlan): nics.Outdated} {
		x := &execution{shipped: outdated{err}}
		if s := x.run(nil, nil, nil); s.Ends != want || len(s.More) > 0 {
			t.Errorf("%v: %+v", err, s)
		}
	}
}

// TestAFunctionThatIsMissingIsNamed in words that say what to do: such a transaction is not tried again.
func TestAFunctionThatIsMissingIsNamed(t *testing.T) {
	err := aborting(nics.NoFunction)
	if proto.AbortReason(err) != 0 || !strings.Contains(err.Error(), "not registered at the node") ||
		!strings.Contains(err.Error(), "same workload on all nodes") {
		t.Error(err)
	}
}
