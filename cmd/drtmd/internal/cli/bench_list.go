package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"drtmd/proto/option"
	"drtmd/proto/workload"
)

// ListSchema of the JSON of drtmd bench --list. docs/BENCH.md describes it.
const ListSchema = "drtmd.list/1"

type listDocument struct {
	Schema    string         `json:"schema"`
	Workloads []listWorkload `json:"workloads"`
	Protocols []listProtocol `json:"protocols"`
}

type listWorkload struct {
	Name         string            `json:"name"`
	Doc          string            `json:"doc"`
	Transactions []listTransaction `json:"transactions"`
	Tables       []listNamed       `json:"tables"`
	Verify       string            `json:"verify,omitempty"`
	Options      []listOption      `json:"options"`
}

type listTransaction struct {
	listNamed
	Percent  int  `json:"percent"`
	ReadOnly bool `json:"read_only"`
}

type listNamed struct {
	Name string `json:"name"`
	Doc  string `json:"doc"`
}

type listProtocol struct {
	listNamed
	Replicates bool         `json:"replicates"`
	Grows      bool         `json:"grows"`
	Options    []listOption `json:"options"`
	Mutations  []listNamed  `json:"mutations"`
}

// listOption has its values as texts, which the flag takes; Default is in words if it is chosen later.
type listOption struct {
	listNamed
	Key     string `json:"key"` // of configuration and JSON
	Type    string `json:"type"`
	Values  string `json:"values"`
	Default string `json:"default"`
}

func listOptions(list option.List) []listOption {
	all := []listOption{}
	for _, o := range list {
		d := o.DefaultDoc()
		if d == "" {
			d = option.Text(o.Default)
		}
		all = append(all, listOption{listNamed{o.Name, strings.ReplaceAll(o.Doc, "`", "")}, o.Key(),
			o.Type.String(), o.Bounds(), d})
	}
	return all
}

// listJSON describes workloads and protocols.
func (a *app) listJSON(w io.Writer) error {
	d := listDocument{Schema: ListSchema}
	for _, s := range benchWorkloads(a.has) {
		x := listWorkload{Name: s.Name, Doc: s.Doc, Verify: s.Verify, Transactions: []listTransaction{},
			Tables: []listNamed{}, Options: listOptions(s.Options)}
		for _, t := range s.Transactions {
			x.Transactions = append(x.Transactions, listTransaction{listNamed{t.Name, t.Doc}, t.Percent, t.ReadOnly})
		}
		for _, t := range s.Tables {
			x.Tables = append(x.Tables, listNamed(t))
		}
		d.Workloads = append(d.Workloads, x)
	}
	for _, p := range a.has.Protocols {
		x := listProtocol{listNamed: listNamed{p.Name, p.Doc}, Options: listOptions(p.Options),
			Replicates: p.Replicates, Grows: p.Grows, Mutations: []listNamed{}}
		for _, m := range p.Mutations {
			x.Mutations = append(x.Mutations, listNamed{m.Name, m.Doc})
		}
		d.Protocols = append(d.Protocols, x)
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(&d)
}

// benchList names what there is; with jsonFile it describes that as JSON.
func (a *app) benchList(jsonFile string) error {
	switch jsonFile {
	case "":
	case "-":
		return a.listJSON(a.stdout)
	default:
		return writeFile(jsonFile, a.listJSON)
	}
	fmt.Fprintln(a.stdout, "workloads (drtmd bench --workload NAME --help describes one)")
	for _, w := range benchWorkloads(a.has) {
		fmt.Fprintf(a.stdout, "  %-12s %s\n", w.Name, w.Doc)
	}
	fmt.Fprintln(a.stdout, "\nprotocols")
	for _, p := range a.has.Protocols {
		doc := p.Doc
		if p.Replicates {
			doc += "; takes --replicas"
		}
		if p.Grows {
			doc += "; takes --growth"
		}
		fmt.Fprintf(a.stdout, "  %-12s %s\n", p.Name, doc)
	}
	for _, p := range a.has.Protocols {
		if len(p.Mutations) == 0 {
			continue
		}
		fmt.Fprintf(a.stdout, "\ndeliberate bugs of %s (--mutation), which --check should find\n",
			p.Name)
		for _, m := range p.Mutations {
			fmt.Fprintf(a.stdout, "  %-24s %s\n", m.Name, m.Doc)
		}
	}
	return nil
}

// helpWithWorkload has help describe the workload that the command line names, and all of bench if it
// names none.
func (a *app) helpWithWorkload(c *cobra.Command) {
	usual := c.HelpFunc()
	c.SetHelpFunc(func(c *cobra.Command, args []string) {
		flag := c.Flags().Lookup("workload")
		if !flag.Changed {
			usual(c, args)
			return
		}
		w, err := findWorkload(a.has, flag.Value.String())
		if err != nil {
			fmt.Fprintf(a.stdout, "%v\n", err)
			return
		}
		describe(a.stdout, w)
	})
}

// describe says all that a workload says of itself.
func describe(out io.Writer, s *workload.Spec) {
	fmt.Fprintf(out, "%s: %s\n", s.Name, s.Doc)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	if len(s.Transactions) > 0 {
		fmt.Fprintln(w, "\nTransactions, with the default options:")
	}
	for _, t := range s.Transactions {
		kind := "read-write"
		if t.ReadOnly {
			kind = "read-only"
		}
		fmt.Fprintf(w, "  %s\t%d %%\t%s\t%s\n", t.Name, t.Percent, kind, t.Doc)
	}
	_ = w.Flush() // errors of standard output are those of the command's end
	if len(s.Tables) > 0 {
		fmt.Fprintln(w, "\nTables:")
	}
	for _, t := range s.Tables {
		fmt.Fprintf(w, "  %s\t%s\n", t.Name, t.Doc)
	}
	_ = w.Flush() // as above
	if s.Verify != "" {
		fmt.Fprintf(out, "\nChecked after the run: %s.\n", s.Verify)
	}
	fmt.Fprintln(out, "\nOptions:")
	for _, o := range listOptions(s.Options) {
		fmt.Fprintf(out, "  --%s\n        %s\n        takes: %s; default: %s\n", o.Name, o.Doc, o.Values, o.Default)
	}
	if len(s.Remote) > 0 {
		fmt.Fprintf(out, "\nOn one node --%s count as 0.\n", strings.Join(s.Remote, " and --"))
	}
	fmt.Fprintln(out, "\ndrtmd bench --help lists the flags that every workload takes. In a node's configuration an option is a key of\n"+
		"the section data, with underscores.")
}
