package check

import (
	"strings"
	"testing"
)

// TestAbsencesAreGuessedAnewWhenAGuessLeadsNowhere: a reader that was under way for long did not find two
// keys, each of which came and went meanwhile. Only at its end were both absent.
func TestAbsencesAreGuessedAnewWhenAGuessLeadsNowhere(t *testing.T) {
	lines := []string{"load x 1, y 1", "3-4 d y 2", "5-6 w y 3", "10-11 d x 2", "12-13 w x 3",
		"14-15 d y 4", "20-21 w y 5", "30-31 d x 4", "40-41 d y 6", "210-211 w x 5", "212-213 w y 7"}
	for _, reads := range []string{"a x 0, a y 0", "a y 0, a x 0"} {
		// Where the reader stands among the lines decides what is nearest to it.
		for at := 1; at <= len(lines); at++ {
			all := append(append(append([]string(nil), lines[:at]...), "1-200 "+reads), lines[at:]...)
			if r := check(t, parse(t, strings.Join(all, "\n")), Options{}); r.Verdict != Serializable {
				t.Errorf("line %d, %s: %v, %v", at, reads, r.Verdict, r.Violations)
			}
		}
	}
}
