package hades

import "drtmd/internal/mutation"

// bug is a deliberate bug of the engines, for tests that show that checks find it. The zero value is none.
type bug uint8

const (
	fieldWithoutHeader bug = iota + 1
	fieldHalfWritten
	replicaAnyOrder
	decidedUnquiet
	completeAborted
	serveLeaseless
	fillUnkept
	appliedForgotten
	runOn
)

var bugs = mutation.Table[bug]{
	{Name: "none", Doc: "correct engines"},
	fieldWithoutHeader: {Name: "field-without-header",
		Doc: "an access to a field leaves out the header's line, which stands for the record's version"},
	fieldHalfWritten: {Name: "field-half-written",
		Doc: "a commit writes the first line of a field, and not the others"},
	replicaAnyOrder: {Name: "replica-applies-in-any-order",
		Doc: "a replica applies a record though it has a newer version"},
	decidedUnquiet: {Name: "decided-before-all-are-quiet",
		Doc: "transactions go on while a survivor has committed ones that are not applied"},
	completeAborted: {Name: "recovery-aborts-complete",
		Doc: "a transaction of the dead is aborted though all shards have its record"},
	serveLeaseless: {Name: "serve-without-lease",
		Doc: "a node tells clients what it has read in its memory after its lease has ended"},
	fillUnkept: {Name: "fill-copies-unkept",
		Doc: "a replica is filled with what a transaction has stored whose records are not kept yet"},
	appliedForgotten: {Name: "applied-records-forgotten",
		Doc: "a node that has applied a record forgets so at once, though other nodes still keep theirs"},
	runOn: {Name: "transactions-run-on-in-a-change",
		Doc: "a change of the members does not end the transactions that have not begun to persist"},
}

func (c *Chip) lacks(b bug) bool { return c.bug == b }
