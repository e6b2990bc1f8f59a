package spelling

import "testing"

func TestDistanceCountsInsertionsRemovalsAndReplacements(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"lisen", "listen", 1}, {"listen", "lisen", 1}, {"perf", "pert", 1},
		{"", "abc", 3}, {"kitten", "sitting", 3}} {
		if got := Distance(c.a, c.b); got != c.want {
			t.Errorf("%q to %q: %d, want %d", c.a, c.b, got, c.want)
		}
	}
}
