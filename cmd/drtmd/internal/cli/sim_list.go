package cli

import (
	"encoding/json"
	"fmt"
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

func (a *app) listScenariosJSON() error {
	d := simListDocument{Schema: SimSchema}
	for _, s := range a.scenarios() {
		d.Scenarios = append(d.Scenarios, listItem(s))
	}
	d.Scenarios = append(d.Scenarios, simListItem{Name: saturationName, Doc: saturationDoc})
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

// listScenarios lists them for people, or as JSON of SimSchema.
func (a *app) listScenarios(asJSON bool) error {
	if asJSON {
		return a.listScenariosJSON()
	}
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "SCENARIO\tNODES\tWHAT")
	listed := map[string]string{} // steps to the scenario that lists them
	for _, s := range a.scenarios() {
		fmt.Fprintf(w, "%s\t%d (%d..%d)\t%s\n", s.Name, s.Nodes, s.MinNodes, s.MaxNodes, s.Doc)
		for _, d := range s.Dimensions {
			fmt.Fprintf(w, "\t\t  --set %s=%s: %s\n", d.Name, strings.Join(d.Values, "|"), d.Doc)
		}
		for _, m := range s.Mutations {
			fmt.Fprintf(w, "\t\t  --mutation %s: %s\n", m.Name, m.Doc)
			if m.Equivalent != "" {
				fmt.Fprintf(w, "\t\t    no check can find it: %s\n", m.Equivalent)
			}
		}
		steps := strings.Join(s.Steps, "\n")
		if same, ok := listed[steps]; ok && len(s.Steps) > 0 {
			fmt.Fprintf(w, "\t\t  steps as %s\n", same)
			continue
		}
		listed[steps] = s.Name
		for _, step := range s.Steps {
			fmt.Fprintf(w, "\t\t  step %q\n", step)
		}
	}
	fmt.Fprintf(w, "%s\t\t%s\n", saturationName, saturationDoc)
	return w.Flush()
}
