package reproduce

import (
	"strings"
	"testing"
)

// TestConditionsSayHowClientsShareTheCores: in all of the runs, in none, or in some.
func TestConditionsSayHowClientsShareTheCores(t *testing.T) {
	for _, x := range []struct {
		preferred int
		says      string
	}{{9, "; they run before"}, {0, "as root"}, {4, "in 4 of 9 runs"}} {
		got := priorities(x.preferred, 9)
		if !strings.Contains(got, x.says) || !strings.Contains(got, "no garbage") || !strings.Contains(got, "spin") {
			t.Errorf("%d of 9: %s", x.preferred, got)
		}
	}
}
