package mutation

import (
	"slices"
	"testing"
)

type bug uint8

const (
	noLock bug = iota + 1
	noCheck
)

var bugs = Table[bug]{
	{Name: "none", Doc: "correct"},
	noLock:  {Name: "no-lock", Doc: "no lock is taken"},
	noCheck: {Name: "no-check", Doc: "nothing is checked", Equivalent: "the lock suffices"},
}

func TestATableListsAllButNone(t *testing.T) {
	if all := bugs.All(); !slices.Equal(all, []bug{noLock, noCheck}) {
		t.Errorf("All gives %v", all)
	}
	list := bugs.List("floor")
	want := []Mutation{{Name: "no-lock", Doc: "no lock is taken", Of: "floor"},
		{Name: "no-check", Doc: "nothing is checked", Of: "floor", Equivalent: "the lock suffices"}}
	if !slices.Equal(list, want) {
		t.Errorf("List gives %v", list)
	}
	if bugs[noLock].Of != "" {
		t.Error("List changed the table")
	}
}

func TestATableFindsItsNames(t *testing.T) {
	for _, c := range []struct {
		name string
		want bug
		err  string
	}{
		{"", 0, ""}, {"none", 0, ""}, {"no-lock", noLock, ""}, {"no-check", noCheck, ""},
		{"no", 0, `unknown mutation "no"; known: no-lock, no-check`},
	} {
		got, err := bugs.Find(c.name)
		if got != c.want || (err == nil) != (c.err == "") || err != nil && err.Error() != c.err {
			t.Errorf("Find(%q) gives %d, %v", c.name, got, err)
		}
	}
}

func TestANumberWithoutANameIsPrinted(t *testing.T) {
	if s := bugs.Name(noCheck); s != "no-check" {
		t.Error(s)
	}
	if s := bugs.Name(noCheck + 1); s != "mutation(3)" {
		t.Error(s)
	}
}
