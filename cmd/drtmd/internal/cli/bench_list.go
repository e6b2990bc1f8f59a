package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"drtmd/proto/node"
	"drtmd/proto/option"
	"drtmd/proto/rtx/engine"
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
	Functions    []listFunction    `json:"functions"`
	Options      []listOption      `json:"options"`
}

// listFunction is a transaction that may be executed elsewhere than at its client.
type listFunction struct {
	Number uint16 `json:"number"`
	listNamed
	Records       []listRecords `json:"records"`
	ArgumentBytes int           `json:"argument_bytes"`
	ResultBytes   int           `json:"result_bytes"`
}

// listRecords are from Least to Most records of a table.
type listRecords struct {
	Table string `json:"table"`
	Mode  string `json:"mode"`
	Least int    `json:"least"`
	Most  int    `json:"most"`
	Doc   string `json:"doc"`
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
	Simulated  bool         `json:"simulated,omitempty"` // only the simulator has its chips
	Options    []listOption `json:"options"`
	Mutations  []listNamed  `json:"mutations"`
	Indexes    []listNamed  `json:"indexes,omitempty"` // of a protocol of memory nodes
}

// listOption has its values as texts, which the flag takes; Default is in words if it is chosen later.
type listOption struct {
	listNamed
	Key     string `json:"key"` // of configuration and JSON
	Type    string `json:"type"`
	Values  string `json:"values"`
	Default string `json:"default"`
}

// benchProtocols are those of clusters, and those of memory nodes.
func (a *app) benchProtocols() []node.Protocol {
	return append(slices.Clip(a.has.Protocols), node.MemoryProtocols()...)
}

func isOfMemory(p *node.Protocol) bool {
	_, ok := node.FindMemoryProtocol(p.Name)
	return ok
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

// list is what drtmd bench --list shows: everything, or what has the names that were given.
type list struct {
	workloads []workload.Spec
	protocols []node.Protocol
}

// listed finds what names stand for.
func (a *app) listed(names []string) (l list, err error) {
	all := list{benchWorkloads(a.has), a.benchProtocols()}
	if len(names) == 0 {
		return all, nil
	}
	for _, name := range names {
		found := false
		for _, w := range all.workloads {
			if w.Name == name {
				l.workloads, found = append(l.workloads, w), true
			}
		}
		for _, p := range all.protocols {
			if p.Name == name {
				l.protocols, found = append(l.protocols, p), true
			}
		}
		if !found {
			return l, usagef("drtmd bench --list names all", "there is no workload and no protocol %q", name)
		}
	}
	return l, nil
}

// writeJSON describes them for programs.
func (l *list) writeJSON(w io.Writer) error {
	d := listDocument{Schema: ListSchema, Workloads: []listWorkload{}, Protocols: []listProtocol{}}
	for _, s := range l.workloads {
		x := listWorkload{Name: s.Name, Doc: s.Doc, Verify: s.Verify, Transactions: []listTransaction{},
			Tables: []listNamed{}, Functions: []listFunction{}, Options: listOptions(s.Options)}
		for _, t := range s.Transactions {
			x.Transactions = append(x.Transactions, listTransaction{listNamed{t.Name, t.Doc}, t.Percent, t.ReadOnly})
		}
		for _, t := range s.Tables {
			x.Tables = append(x.Tables, listNamed(t))
		}
		for _, f := range s.Functions {
			y := listFunction{Number: f.Number, listNamed: listNamed{f.Name, f.Doc}, ArgumentBytes: f.ArgumentBytes,
				ResultBytes: f.ResultBytes}
			for _, r := range f.Records {
				y.Records = append(y.Records, listRecords{r.Table, r.Mode.String(), r.Least, r.Most, r.Doc})
			}
			x.Functions = append(x.Functions, y)
		}
		d.Workloads = append(d.Workloads, x)
	}
	for _, p := range l.protocols {
		x := listProtocol{listNamed: listNamed{p.Name, p.Doc}, Options: listOptions(p.Options),
			Replicates: p.Replicates, Grows: p.Grows, Simulated: onlySimulated(&p), Mutations: []listNamed{}}
		for _, m := range p.Mutations {
			x.Mutations = append(x.Mutations, listNamed{m.Name, m.Doc})
		}
		if isOfMemory(&p) {
			for _, s := range engine.Indexes() {
				x.Indexes = append(x.Indexes, listNamed{s.Name, s.Doc})
			}
		}
		d.Protocols = append(d.Protocols, x)
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(&d)
}

// benchList lists what there is, or describes what is named; with jsonFile as JSON.
func (a *app) benchList(names []string, jsonFile string) error {
	l, err := a.listed(names)
	if err == nil {
		err = writable(jsonFlag, jsonFile)
	}
	switch {
	case err != nil:
		return err
	case jsonFile == "-":
		return l.writeJSON(a.stdout)
	case jsonFile != "":
		return writeFile(jsonFile, l.writeJSON)
	case len(names) == 0:
		return l.writeOverview(a.stdout)
	}
	for i := range l.workloads {
		describe(a.stdout, &l.workloads[i])
	}
	for i := range l.protocols {
		describeProtocol(a.stdout, &l.protocols[i])
	}
	return nil
}

// writeOverview has a line for each.
func (l *list) writeOverview(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "workloads (--workload)")
	for _, s := range l.workloads {
		fmt.Fprintf(w, "  %s\t%s\n", s.Name, s.Doc)
	}
	fmt.Fprintln(w, "\nprotocols (--protocol)")
	for _, p := range l.protocols {
		doc := p.Doc
		if p.Replicates {
			doc += "; takes --replicas"
		}
		if p.Grows {
			doc += "; takes --growth"
		}
		if isOfMemory(&p) {
			doc += "; takes --memory and --index"
		}
		fmt.Fprintf(w, "  %s\t%s\n", p.Name, doc)
	}
	fmt.Fprintln(w, "\ndrtmd bench --list NAME describes one: transactions, tables, options, deliberate bugs.")
	return w.Flush()
}

// helpWithNames has help describe the workloads and protocols that the command line names, and all of bench if it
// names none.
func (a *app) helpWithNames(c *cobra.Command) {
	usual := c.HelpFunc()
	c.SetHelpFunc(func(c *cobra.Command, args []string) {
		names := c.Flags().Args()
		for _, name := range []string{"workload", "protocol"} {
			if f := c.Flags().Lookup(name); f.Changed {
				names = append(names, f.Value.String())
			}
		}
		if len(names) == 0 {
			usual(c, args)
			return
		}
		if err := a.benchList(names, ""); err != nil {
			fmt.Fprintf(a.stdout, "%v\n", err)
		}
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
	describeFunctions(out, s)
	if s.Verify != "" {
		fmt.Fprintf(out, "\nChecked after the run: %s.\n", s.Verify)
	}
	describeOptions(out, s.Options)
	if len(s.Remote) > 0 {
		fmt.Fprintf(out, "\nOn one node --%s count as 0.\n", strings.Join(s.Remote, " and --"))
	}
	fmt.Fprintln(out, "\ndrtmd bench --help lists the flags that every workload takes. In a node's configuration an option is a key of\n"+
		"the section data, with underscores.")
}

func describeOptions(out io.Writer, options option.List) {
	if len(options) == 0 {
		return
	}
	fmt.Fprintln(out, "\nOptions:")
	for _, o := range listOptions(options) {
		fmt.Fprintf(out, "  --%s\n        %s\n        takes: %s; default: %s\n", o.Name, o.Doc, o.Values, o.Default)
	}
}

// describeFunctions says what may be executed elsewhere.
func describeFunctions(out io.Writer, s *workload.Spec) {
	if len(s.Functions) == 0 {
		return
	}
	fmt.Fprintln(out, "\nFunctions that a protocol may ship to another node or a NIC (Xenic §4.2.2); the sizes are the\n"+
		"largest ones. No protocol ships them yet.")
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, f := range s.Functions {
		fmt.Fprintf(w, "  %d  %s\targument %d B\tresult %d B\t%s\n", f.Number, f.Name, f.ArgumentBytes, f.ResultBytes, f.Doc)
	}
	_ = w.Flush() // as in describe
	for _, f := range s.Functions {
		fmt.Fprintf(out, "  records of %s\n", f.Name)
		for _, r := range f.Records {
			fmt.Fprintf(out, "    %v\n", r)
		}
	}
}

// describeProtocol says all that a protocol says of itself.
func describeProtocol(out io.Writer, p *node.Protocol) {
	fmt.Fprintf(out, "%s: %s\n", p.Name, p.Doc)
	var takes []string
	if p.Replicates {
		takes = append(takes, "--replicas")
	}
	if p.Grows {
		takes = append(takes, "--growth")
	}
	if isOfMemory(p) {
		takes = append(takes, "--memory", "--index", "--client")
		if s, ok := engine.FindSystem(p.Name); ok && s.Copies {
			takes = append(takes, "--leaf-copies (index sherman)")
		}
	}
	if len(takes) > 0 {
		last := len(takes) - 1
		text := takes[last]
		if last > 0 {
			text = strings.Join(takes[:last], ", ") + " and " + text
		}
		fmt.Fprintf(out, "\nIt takes %s.\n", text)
	}
	if isOfMemory(p) {
		fmt.Fprintln(out, "\nIndexes (--index):")
		for _, s := range engine.Indexes() {
			fmt.Fprintf(out, "  %s  %s\n", s.Name, s.Doc)
		}
	}
	describeOptions(out, p.Options)
	if len(p.Mutations) == 0 {
		fmt.Fprintln(out, "\nIt has no deliberate bugs.")
		return
	}
	fmt.Fprintln(out, "\nDeliberate bugs (--mutation), which --check should find:")
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, m := range p.Mutations {
		fmt.Fprintf(w, "  %s\t%s\n", m.Name, m.Doc)
	}
	_ = w.Flush() // as in describe
}
