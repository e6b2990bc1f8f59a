package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"drtmd/verbs/scenario"
)

// simListDocument is what drtmd sim --list --json prints.
type simListDocument struct {
	Schema    string        `json:"schema"`
	Scenarios []simListItem `json:"scenarios"`
}

type simListItem struct {
	Name       string         `json:"name"`
	Doc        string         `json:"doc"`
	Nodes      int            `json:"nodes,omitempty"`
	MinNodes   int            `json:"min_nodes,omitempty"`
	MaxNodes   int            `json:"max_nodes,omitempty"`
	Dimensions []simListDim   `json:"dimensions,omitempty"`
	Mutations  []simListFault `json:"mutations,omitempty"`
	Steps      []string       `json:"steps,omitempty"`
}

type simListDim struct {
	Name   string   `json:"name"`
	Doc    string   `json:"doc"`
	Values []string `json:"values"`
}

type simListFault struct {
	Name       string `json:"name"`
	Doc        string `json:"doc"`
	Equivalent string `json:"equivalent,omitempty"` // why no check can find it
}

func (a *app) listScenariosJSON(all []*scenario.Scenario, saturation bool) error {
	d := simListDocument{Schema: SimSchema}
	for _, s := range all {
		d.Scenarios = append(d.Scenarios, listItem(s))
	}
	if saturation {
		d.Scenarios = append(d.Scenarios, simListItem{Name: saturationName, Doc: saturationDoc})
	}
	e := json.NewEncoder(a.stdout)
	e.SetIndent("", "  ")
	return e.Encode(&d)
}

func listItem(s *scenario.Scenario) simListItem {
	i := simListItem{Name: s.Name, Doc: s.Doc, Nodes: s.Nodes, MinNodes: s.MinNodes,
		MaxNodes: s.MaxNodes, Steps: s.Steps}
	for _, d := range s.Dimensions {
		i.Dimensions = append(i.Dimensions, simListDim{d.Name, d.Doc, d.Values})
	}
	for _, m := range s.Mutations {
		i.Mutations = append(i.Mutations, simListFault{m.Name, m.Doc, m.Equivalent})
	}
	return i
}

// listScenarios lists them for people, or as JSON of SimSchema: all, or the one that is named.
func (a *app) listScenarios(name string, asJSON bool) error {
	all := a.scenarios()
	if name != "" && name != saturationName {
		all = slices.DeleteFunc(all, func(s *scenario.Scenario) bool { return s.Name != name })
		if len(all) == 0 {
			return a.unknownScenario(name)
		}
	}
	if name == saturationName {
		all = nil
	}
	saturation := name == "" || name == saturationName
	if asJSON {
		return a.listScenariosJSON(all, saturation)
	}
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "SCENARIO\tNODES\tWHAT")
	listed := listed{}
	for _, s := range all {
		fmt.Fprintf(w, "%s\t%d (%d..%d)\t%s\n", s.Name, s.Nodes, s.MinNodes, s.MaxNodes, s.Doc)
		listed.once(w, s.Name, "dimensions", len(s.Dimensions), func(i int) string {
			d := &s.Dimensions[i]
			return fmt.Sprintf("--set %s=%s: %s", d.Name, strings.Join(d.Values, "|"), d.Doc)
		})
		listed.once(w, s.Name, "mutations", len(s.Mutations), func(i int) string {
			m := &s.Mutations[i]
			if m.Equivalent == "" {
				return fmt.Sprintf("--mutation %s: %s", m.Name, m.Doc)
			}
			return fmt.Sprintf("--mutation %s: %s\n    no check can find it: %s", m.Name, m.Doc, m.Equivalent)
		})
		listed.once(w, s.Name, "steps", len(s.Steps), func(i int) string { return fmt.Sprintf("step %q", s.Steps[i]) })
	}
	if saturation {
		fmt.Fprintf(w, "%s\t\t%s\n", saturationName, saturationDoc)
	}
	if name == "" {
		fmt.Fprintln(w, "\ndrtmd sim --list --scenario NAME describes one alone.")
	}
	return w.Flush()
}

// listed are the scenarios that have listed something, by its text: what many have is listed once.
type listed map[string]string

// once lists n lines of a scenario, or names the one that has listed the same.
func (l listed) once(w io.Writer, scenario, what string, n int, line func(int) string) {
	var all strings.Builder
	for i := range n {
		for _, text := range strings.Split(line(i), "\n") {
			fmt.Fprintf(&all, "\t\t  %s\n", text)
		}
	}
	text := all.String()
	switch same, ok := l[text]; {
	case n == 0:
	case ok && n > 1:
		fmt.Fprintf(w, "\t\t  %s as %s\n", what, same)
	default:
		l[text] = scenario
		fmt.Fprint(w, text)
	}
}
