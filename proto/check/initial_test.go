package check

import (
	"context"
	"testing"

	"drtmd/proto/history"
)

// TestARunMayBeginWithUsedTables: they have versions of earlier runs, also of keys that were deleted.
func TestARunMayBeginWithUsedTables(t *testing.T) {
	for _, c := range []struct {
		name, history string
		want          Verdict
	}{
		{"what was there and what was deleted", `
			counting
			load x 3.5, d y 4.0
			0-10 r x 3.5, a y 4.0
			20-30 w x 3.6:7, w y 5.0:8
			40-50 r x 3.6:7, r y 5.0:8
			final x 3.6:7, y 5.0:8`, Serializable},
		{"it stays deleted", `
			counting
			load d y 4.0
			0-10 a y 4.0
			final d y 4.0`, Serializable},
		{"an older deletion is found", `
			counting
			load d y 4.0
			0-10 a y 2.0
			final d y 4.0`, Violated},
		{"its absence is found after it was inserted", `
			counting
			load d y 4.0
			0-10 w y 5.0:8
			20-30 a y 4.0
			final y 5.0:8`, Violated},
		{"a version is given out again", `
			counting
			load d y 4.0
			0-10 w y 3.0:8
			final y 3.0:8`, Violated},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := History(context.Background(), parse(t, c.history, history.Clock{Name: "true"}), Options{})
			if err != nil {
				t.Fatal(err)
			}
			if r.Verdict != c.want {
				t.Errorf("%v, want %v: %v", r.Verdict, c.want, r.Violations)
			}
		})
	}
}
