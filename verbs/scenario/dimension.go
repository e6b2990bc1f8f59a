package scenario

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// Dimension is a property of a scenario's runs that each seed draws, such as the size of values.
// Bugs hide where nobody looks: what all runs have in common is a place where nobody looks.
type Dimension struct {
	Name string
	Doc  string // one line
	// Values are all that can be set, the plainest first: shrinking tries that one.
	Values []string
	// Drawn are those that seeds draw from, each as often as it is listed; nil: every run has the
	// first of Values unless another is set.
	Drawn []string
}

// Setting is the value that a dimension has in a run.
type Setting struct{ Name, Value string }

func (s Setting) String() string { return s.Name + "=" + s.Value }

// ParseSettings reads NAME=VALUE,NAME=VALUE. Whether a scenario has them, Run says.
func ParseSettings(text string) (list []Setting, err error) {
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		name, value, ok := strings.Cut(part, "=")
		if !ok {
			return nil, fmt.Errorf("%q is not NAME=VALUE", part)
		}
		if valueOf(list, name) != "" {
			return nil, fmt.Errorf("%s is set twice: leave one out", name)
		}
		list = append(list, Setting{name, value})
	}
	return list, nil
}

// settings joins them as ParseSettings reads them.
func settings(list []Setting) string {
	var parts []string
	for _, s := range list {
		parts = append(parts, s.String())
	}
	return strings.Join(parts, ",")
}

// valueOf is the value of a dimension in a list; "" if it has none.
func valueOf(list []Setting, name string) string {
	for _, s := range list {
		if s.Name == name {
			return s.Value
		}
	}
	return ""
}

// checkSettings refuses what the scenario does not have.
func (s *Scenario) checkSettings(list []Setting) error {
	for _, set := range list {
		at := slices.IndexFunc(s.Dimensions, func(d Dimension) bool { return d.Name == set.Name })
		if at < 0 {
			return &UnknownError{What: "dimension", Name: set.Name, Known: s.dimensionNames()}
		}
		if d := &s.Dimensions[at]; !slices.Contains(d.Values, set.Value) {
			return &UnknownError{What: "value of dimension " + d.Name, Name: set.Value, Known: d.Values}
		}
	}
	return nil
}

func (s *Scenario) dimensionNames() (names []string) {
	for _, d := range s.Dimensions {
		names = append(names, d.Name)
	}
	return names
}

// drawDimensions completes the settings and the number of workers. Every dimension takes its part
// of the random source whether it is set or not, so that to set one changes no other.
func (s *Scenario) drawDimensions(o *Options, r *rand.Rand) {
	drawn := make([]Setting, 0, len(s.Dimensions))
	for i := range s.Dimensions {
		d := &s.Dimensions[i]
		value, pick := valueOf(o.Settings, d.Name), r.Uint32()
		switch {
		case value != "":
		case len(d.Drawn) > 0:
			value = d.Drawn[int(pick)%len(d.Drawn)]
		default:
			value = d.Values[0]
		}
		drawn = append(drawn, Setting{d.Name, value})
	}
	o.Settings = drawn
	if n := len(s.DrawnWorkers); o.Workers == 0 && n > 0 {
		o.Workers = s.DrawnWorkers[r.IntN(n)]
	}
}

// plainer are options that differ from those of a run in one dimension, which has its plainest
// value, or in fewer workers.
func (s *Scenario) plainer(o *Options) (list []Options) {
	for i := range s.Dimensions {
		if plain := s.Dimensions[i].Values[0]; o.Settings[i].Value != plain {
			p := *o
			p.Settings = slices.Clone(o.Settings)
			p.Settings[i].Value = plain
			list = append(list, p)
		}
	}
	if len(s.DrawnWorkers) > 0 && o.Workers > slices.Min(s.DrawnWorkers) {
		p := *o
		p.Workers--
		list = append(list, p)
	}
	return list
}
