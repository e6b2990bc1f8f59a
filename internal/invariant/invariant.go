// Package invariant has assertions: a failed one panics.
//
// Assert is always on and is meant for checks that cost a comparison. Checks that cost more
// stand behind Enabled, which the build tag "invariants" or the race detector switches on.
// A failed assertion is a bug of ours, never an operating error and never a peer's doing:
// what arrives from outside is refused with an error instead.
package invariant

import "fmt"

// Violation is the value a failed assertion panics with.
type Violation struct{ What string }

func (v Violation) Error() string { return "invariant violated: " + v.What }

// Assert panics with a Violation when ok is false.
func Assert(ok bool, what string) {
	if !ok {
		panic(Violation{What: what})
	}
}

// Assertf is Assert with a formatted message. Its arguments may be allocated also when ok is true:
// where nothing may be, test the condition before.
func Assertf(ok bool, format string, args ...any) {
	if !ok {
		panic(Violation{What: fmt.Sprintf(format, args...)})
	}
}
