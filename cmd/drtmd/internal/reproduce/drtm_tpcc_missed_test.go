package reproduce

import (
	"strings"
	"testing"

	"drtmd/cmd/drtmd/internal/report"
)

// TestReasonsAreThoseOfFullRuns: a quick run says so, and leaves rows without a reason as they are.
func TestReasonsAreThoseOfFullRuns(t *testing.T) {
	run := ofFullRuns(func(*Run) (*Outcome, error) {
		return &Outcome{Rows: []report.ComparedRow{{What: "a", Missed: missedLogs}, {What: "b"}}}, nil
	})
	for _, quick := range []bool{false, true} {
		o, err := run(&Run{Options: Options{Quick: quick}})
		if err != nil {
			t.Fatal(err)
		}
		m := o.Rows[0].Missed
		if strings.HasPrefix(m, "a quick run has") != quick || !strings.HasSuffix(m, missedLogs) {
			t.Errorf("quick %t: %s", quick, m)
		}
		if o.Rows[1].Missed != "" {
			t.Errorf("quick %t: a reason for a bound that nobody exceeds: %s", quick, o.Rows[1].Missed)
		}
	}
}
