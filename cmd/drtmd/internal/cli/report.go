package cli

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"drtmd/cmd/drtmd/internal/report"
)

const reportLong = `report compares runs of drtmd bench side by side: throughput, latency, aborts
and verbs, each with its ratio to the first run or to --base. It lists the settings that differ.
It warns if runs are not comparable: different machines, virtual and real time, different
workloads, or a history recorded in only some of them.

Each FILE is the JSON of drtmd bench --json or --report (report.json). Figures of the simulator are
marked as modelled.

Exit codes:
  0    done
  1    a file cannot be read, or is not a report
  2    wrong command line`

const reportExample = `  drtmd bench --protocol drtm --report drtm
  drtmd bench --protocol twopl --report twopl
  drtmd report drtm/report.json twopl/report.json --html compare.html`

// maxCompared runs are what fits into a table and a plot.
const maxCompared = 26

// reportFlags are the flags as given.
type reportFlags struct {
	html, json string
	base       int
}

func (a *app) reportCommand() *cobra.Command {
	p := &reportFlags{}
	c := &cobra.Command{
		Use:     "report FILE...",
		Short:   "compare runs of drtmd bench",
		Long:    reportLong,
		Example: reportExample,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 || len(args) > maxCompared {
				return usagef(fmt.Sprintf("see %s --help", c.CommandPath()),
					"%s takes 1 to %d files, not %d", c.CommandPath(), maxCompared, len(args))
			}
			if p.base < 1 || p.base > len(args) {
				return usagef("1 is the first file", "--base %d is not in 1..%d", p.base, len(args))
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error { return a.compare(args, p) },
	}
	f := c.Flags()
	f.StringVar(&p.html, "html", "", "write an HTML page with plots to `FILE`")
	f.StringVar(&p.json, jsonFlag, "", "write JSON (schema "+report.CompareSchema+
		") to `FILE`; - or no FILE: to standard output, instead of the text")
	f.IntVar(&p.base, "base", 1, "compute ratios to the `N`th file")
	return c
}

// compare reads all files before it writes any.
func (a *app) compare(files []string, p *reportFlags) error {
	if err := errors.Join(replaceable("html", p.html), replaceable("json", p.json)); err != nil {
		return err
	}
	var runs []*report.Read
	var wrong error
	for _, f := range files {
		if err := noFolder(f, " in it, such as "+filepath.Join(f, report.JSONFile)); err != nil {
			wrong = errors.Join(wrong, err)
			continue
		}
		r, err := report.ReadBench(f)
		if err != nil {
			wrong = errors.Join(wrong, err)
			continue
		}
		runs = append(runs, r)
	}
	if wrong != nil {
		return wrong
	}
	c := report.NewCompare(runs, p.base-1)
	var err error
	if p.json == "-" {
		err = c.WriteJSON(a.stdout)
	} else {
		err = c.WriteText(a.stdout)
	}
	if p.json != "" && p.json != "-" {
		err = errors.Join(err, report.Replace(p.json, c.WriteJSON))
	}
	if p.html != "" {
		err = errors.Join(err, report.Replace(p.html, c.WriteHTML))
	}
	return err
}
