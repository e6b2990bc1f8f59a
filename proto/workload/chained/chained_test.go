package chained

import (
	"slices"
	"strings"
	"testing"

	"drtmd/proto/chop"
)

// TestPiecesAreThoseOfTheAnalysis, and each bug of the analysis makes others.
func TestPiecesAreThoseOfTheAnalysis(t *testing.T) {
	pieces := func(deferred bool, m chop.Mutation) (lines []string) {
		r, err := chop.Analyse(Pieces(deferred), chop.Options{Optimised: true, Mutation: m})
		if err != nil {
			t.Fatal(err)
		}
		for i := range r.Transactions {
			c := &r.Transactions[i]
			line := c.Name
			for k := range c.Pieces {
				line += " [" + c.Pieces[k].Name() + "]"
			}
			lines = append(lines, line)
		}
		return lines
	}
	want := []string{"transfer [S] [A B]", "reserve [Y] [L]", "post [P Q]", "tally [R T W]", "audit [A B D S T]"}
	got := pieces(false, 0)
	if !slices.Equal(got, want) {
		t.Errorf("%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	want = append(want, "ship [F] [C]", "bill [O B]", "inspect [F O B]")
	if got := pieces(true, 0); !slices.Equal(got, want) {
		t.Errorf("%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for m := chop.SkipMerge; m <= chop.ReadCommutes; m++ {
		if slices.Equal(pieces(false, m), got) {
			t.Errorf("%v changes nothing", m)
		}
	}
}
