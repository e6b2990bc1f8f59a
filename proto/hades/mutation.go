package hades

import "drtmd/internal/mutation"

// bug is a deliberate bug of the engines, for tests that show that checks find it. The zero value is none.
type bug uint8

const (
	fieldWithoutHeader bug = iota + 1
	fieldHalfWritten
)

var bugs = mutation.Table[bug]{
	{Name: "none", Doc: "correct engines"},
	fieldWithoutHeader: {Name: "field-without-header",
		Doc: "an access to a field leaves out the header's line, which stands for the record's version"},
	fieldHalfWritten: {Name: "field-half-written",
		Doc: "a commit writes the first line of a field, and not the others"},
}

func (c *Chip) lacks(b bug) bool { return c.bug == b }
