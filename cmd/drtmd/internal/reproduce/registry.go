package reproduce

import (
	"fmt"
	"slices"
	"strings"

	"drtmd/cmd/drtmd/internal/report"
	"drtmd/cmd/drtmd/internal/spelling"
)

// All stands for the items of all papers.
const All = "all"

// Systems are the papers, the one that drtmd began with first, and what no paper has.
func Systems() []System { return []System{drtm(), hades(), xenic(), rtx(), dandelion(), own()} }

// UnknownError is a name that no item and no system has.
type UnknownError struct {
	Name string
	Near []string // names that look like it
}

func (e *UnknownError) Error() string {
	hint := "drtmd reproduce --list names all"
	if len(e.Near) > 0 {
		hint = "did you mean " + strings.Join(e.Near, " or ") + "?"
	}
	return fmt.Sprintf("no paper has %q; %s", e.Name, hint)
}

// Select finds the items that names stand for, in the order of the papers and each once. A name is
// an item, a figure with items of its parts, a system, or All; of the last two only items that are done are taken.
func Select(systems []System, names []string) ([]Item, error) {
	wanted := map[string]bool{}
	for _, name := range names {
		found := false
		for _, s := range systems {
			for _, i := range s.Items {
				group := (name == All || name == s.Name) && i.State() == Done
				if group || name == i.Name() || name == i.Whole() {
					wanted[i.Name()], found = true, true
				}
			}
			found = found || name == s.Name
		}
		if !found {
			return nil, &UnknownError{Name: name, Near: near(systems, name)}
		}
	}
	var items []Item
	for _, s := range systems {
		for _, i := range s.Items {
			if wanted[i.Name()] {
				items = append(items, i)
			}
		}
	}
	return items, nil
}

// mostNear bounds UnknownError.Near.
const mostNear = 3

// near are the names that differ least from a wrong one, if they are near enough to be meant.
func near(systems []System, wrong string) []string {
	type candidate struct {
		name     string
		distance int
	}
	var all []candidate
	add := func(name string) {
		all = append(all, candidate{name, spelling.Distance(strings.ToLower(wrong), name)})
	}
	add(All)
	for _, s := range systems {
		add(s.Name)
		for _, i := range s.Items {
			add(i.Name())
		}
	}
	slices.SortStableFunc(all, func(a, b candidate) int { return a.distance - b.distance })
	var names []string
	for _, c := range all {
		if c.distance <= max(1, len(wrong)/4) && len(names) < mostNear {
			names = append(names, c.name)
		}
	}
	return names
}

// Names are all that Select takes.
func Names(systems []System) []string {
	names := []string{All}
	for _, s := range systems {
		names = append(names, s.Name)
		for _, i := range s.Items {
			names = append(names, i.Name())
		}
	}
	return names
}

// List is the system as lists and pages show it.
func (s *System) List() report.PaperSystem {
	l := report.PaperSystem{Name: s.Name, Title: s.Title, Paper: s.Paper}
	for i := range s.Items {
		l.Items = append(l.Items, s.Items[i].Entry())
	}
	return l
}
