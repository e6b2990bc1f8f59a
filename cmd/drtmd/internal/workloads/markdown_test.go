package workloads

import (
	"fmt"
	"strings"

	"drtmd/proto/option"
	"drtmd/proto/workload"
)

// markdown is docs/WORKLOADS.md.
func markdown(specs []workload.Spec) string {
	var b strings.Builder
	b.WriteString("# Workloads\n\n" +
		"<!-- Made from the workloads' descriptions: go test ./cmd/drtmd/internal/workloads -update -->\n\n" +
		"What `drtmd bench --list NAME` prints, for all workloads. An option is a flag of `drtmd bench`, and a key of the\n" +
		"section `data` of a node's [configuration](configuration.md), with underscores. The mix is that of the default\n" +
		"options. [BENCH.md](BENCH.md) has the command lines of the papers' runs.\n\n" +
		"Shipped functions are transactions that a protocol may execute at another node or on a NIC (Xenic §4.2.2); the\n" +
		"sizes are the largest ones. No protocol ships them yet.\n")
	for i := range specs {
		section(&b, &specs[i])
	}
	return b.String()
}

func section(b *strings.Builder, s *workload.Spec) {
	fmt.Fprintf(b, "\n## %s\n\n%s.\n\n", s.Name, upper(s.Doc))
	b.WriteString("| transaction | share | | what it does |\n| --- | --- | --- | --- |\n")
	for _, t := range s.Transactions {
		kind := "read-write"
		if t.ReadOnly {
			kind = "read-only"
		}
		fmt.Fprintf(b, "| %s | %d %% | %s | %s |\n", t.Name, t.Percent, kind, t.Doc)
	}
	b.WriteString("\n| table | records |\n| --- | --- |\n")
	for _, t := range s.Tables {
		fmt.Fprintf(b, "| %s | %s |\n", t.Name, t.Doc)
	}
	if len(s.Functions) > 0 {
		b.WriteString("\n| shipped function | argument | result | | records |\n| --- | --- | --- | --- | --- |\n")
	}
	for _, f := range s.Functions {
		var records []string
		for _, r := range f.Records {
			records = append(records, r.String())
		}
		fmt.Fprintf(b, "| %d %s | %d B | %d B | %s | %s |\n", f.Number, f.Name, f.ArgumentBytes, f.ResultBytes, f.Doc,
			strings.Join(records, "; "))
	}
	fmt.Fprintf(b, "\nChecked after the run: %s.\n", s.Verify)
	if len(s.Options) > 0 {
		b.WriteString("\n| option | default | values | |\n| --- | --- | --- | --- |\n")
	}
	for _, o := range s.Options {
		d := o.DefaultDoc()
		if d == "" {
			d = option.Text(o.Default)
		}
		fmt.Fprintf(b, "| `--%s` | %s | %s | %s |\n", o.Name, d, o.Bounds(), strings.ReplaceAll(o.Doc, "`", ""))
	}
}

// upper begins a sentence.
func upper(s string) string { return strings.ToUpper(s[:1]) + s[1:] }
