package check

import (
	"context"
	"testing"

	"drtmd/proto/history"
)

// TestPromisesOfNodesThatDiedTogetherAreVoid: what they have told of may be lost, unless somebody has seen it. What
// took place, did so before it was told.
func TestPromisesOfNodesThatDiedTogetherAreVoid(t *testing.T) {
	for _, c := range []struct {
		name, history string
		want          bool // serializable, if the promises of node 1 until 100 are void
	}{
		{"a write is lost, and its version given out again", `
			counting
			load
			0-10@1 w x 1.0
			20-30 a x 0
			40-50 w x 1.0:7
			final x 1.0:7`, true},
		{"a write of another node is lost", `
			counting
			load
			0-10 w x 1.0
			20-30@1 a x 0
			40-50 w x 1.0:7
			final x 1.0:7`, false},
		{"a write is lost that somebody has read", `
			counting
			load
			0-10@1 w x 1.0
			11-12 r x 1.0
			20-30 a x 0
			final`, false},
		{"a write is seen later than it was told", `
			counting
			load
			0-10@1 w x 1.0
			20-30 a x 0
			40-50 r x 1.0
			final x 1.0`, false},
		{"a roll-back has read what is lost", `
			counting
			load
			0-10@1 w x 1.0
			11-12@1 r x 1.0; user-aborted
			20-30 a x 0
			final`, true},
		{"a write of a later life is lost", `
			counting
			load
			0-10@1 w y 1.0
			190-200@1 w x 1.0
			220-230 a x 0
			240-250 w x 1.0:7
			final x 1.0:7`, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, void := range []bool{false, true} {
				h := parse(t, c.history, history.Clock{Name: "true"}, history.Clock{Name: "true"})
				r, err := History(context.Background(), h, Options{UserAborts: true, Void: func(r *history.Record) bool {
					return void && r.Node == 1 && r.EndNs <= 100
				}})
				if err != nil {
					t.Fatal(err)
				}
				if got := r.Verdict == Serializable; got != (void && c.want) {
					t.Errorf("void %t: %v, %v", void, r.Verdict, r.Violations)
				}
				if err := h.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}
