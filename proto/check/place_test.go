package check

import (
	"strings"
	"testing"

	"drtmd/proto/history"
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

// TestAbsencesOfOneReaderAreGuessedTogether has a run of farm with seals, where a reader validated two absences at
// its start and ended when each of the keys had come and gone, though never both at once.
func TestAbsencesOfOneReaderAreGuessedTogether(t *testing.T) {
	const reader = "6693-15291 a y 0, a x 0"
	lines := []string{"load x 335, y 333", "4074-4334 r y 333, d y 334", "5494-5624 r x 335, d x 336",
		"6924-7054 a y 0, w y 337", "8314-8444 a x 0, w x 337", "8704-8834 r y 337, d y 338", "8944-9124 a y 0",
		"9544-9804 r x 337, a y 0, d x 338, w y 339", "12424-12744 a x 0",
		"14504-14764 r y 339, a x 0, d y 340, w x 339", "15544-15674 r x 339, d x 340"}
	for _, c := range []struct {
		reader string
		want   Verdict
	}{
		{reader, Serializable},
		{strings.Replace(reader, "6693", "7055", 1), Violated}, // y had been inserted
	} {
		for at := 1; at <= len(lines); at++ {
			all := append(append(append([]string(nil), lines[:at]...), c.reader), lines[at:]...)
			h := parse(t, strings.Join(all, "\n"))
			if r := check(t, h, Options{}); (r.Verdict == Serializable) != (c.want == Serializable) {
				t.Errorf("%s in line %d: %v, want %v: %v", c.reader, at, r.Verdict, c.want, r.Violations)
			}
			if m := modelOf(t, h); m.serializable() != (c.want == Serializable) {
				t.Errorf("%s in line %d: a search finds it %t", c.reader, at, m.serializable())
			}
		}
	}
}

// modelOf makes a model of a history of keys from x on, for a search over all orders.
func modelOf(t *testing.T, h *history.History) *model {
	t.Helper()
	m := &model{clocks: []history.Clock{{Name: "true"}}}
	if err := h.Each(func(r *history.Record) error {
		x := *r
		x.Ops = nil
		for _, o := range r.Ops {
			o.Key -= 'x'
			x.Ops = append(x.Ops, o)
		}
		m.records = append(m.records, x)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return m
}
