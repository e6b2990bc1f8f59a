package cli

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"drtmd/cmd/drtmd/internal/report"
	"drtmd/cmd/drtmd/internal/reproduce"
)

const reproduceLong = `reproduce runs tables and figures of the papers and prints the paper's
numbers beside ours: the deviation, the bound on it, and the reading under which the two are
compared.

  NAME      one item, such as drtm/table-6, or a figure whose parts are items, such as
            xenic/figure-8; --list lists all items, done or not
  SYSTEM    all finished items of one paper, such as drtm
  all       all finished items of all papers

Each item is of a kind:

  exact     arithmetic, or counting what the code does
  measured  ratios of wall-clock times on this machine
  modelled  virtual time in the simulator, by the cost model that it names
  not reproducible here, with the reason

--quick runs small sizes with one seed and wider bounds. It finds mistakes; do not quote its numbers. A
row without a bound is not judged: the paper does not print the number, or no reading of it is known.
reproduce prints the rows of an item as soon as it is finished. Ctrl-C ends the run; reproduce then
prints the finished items and writes their pages.

Exit codes:
  0    done
  1    failed
  2    wrong command line
  3    a deviation exceeds its bound
  130  interrupted`

const reproduceExample = `  drtmd reproduce --list
  drtmd reproduce --list drtm --json
  drtmd reproduce drtm/table-6
  drtmd reproduce drtm/figure-3 drtm/figure-17 --seeds 3
  drtmd reproduce drtm --report out                    a page with plots: out/drtm.html
  drtmd reproduce all --quick
  drtmd reproduce drtm/table-4 --mutation no-state-check    must fail`

// reproduceFlags are the flags as given.
type reproduceFlags struct {
	list, quick, json bool
	seeds             int
	report, mutation  string
	plots             string
}

func (a *app) reproduceCommand() *cobra.Command {
	p := &reproduceFlags{}
	c := &cobra.Command{
		Use:     "reproduce NAME...|SYSTEM|all",
		Short:   "run tables and figures of the papers, beside the papers' numbers",
		Long:    reproduceLong,
		Example: reproduceExample,
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return reproduce.Names(reproduce.Systems()), cobra.ShellCompDirectiveNoFileComp
		},
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		if p.list {
			return a.listPapers(args, p)
		}
		r, err := p.checked(c, args)
		if err != nil {
			return err
		}
		r.app = a
		return r.run(c.Context())
	}
	f := c.Flags()
	f.BoolVar(&p.list, "list", false, "list tables and figures, of all papers or of SYSTEM")
	f.BoolVar(&p.quick, "quick", false, "smaller sizes")
	f.IntVar(&p.seeds, "seeds", 0, fmt.Sprintf("means over the seeds 1 to `N`; default %d, with "+
		"--quick %d", reproduce.DefaultSeeds, reproduce.QuickSeeds))
	f.BoolVar(&p.json, "json", false, "print JSON (schema "+report.ReproduceSchema+") instead of text")
	f.StringVar(&p.mutation, "mutation", "", "switch on the deliberate bug `NAME` of the protocol; "+
		"drtmd bench --list PROTOCOL lists them")
	f.StringVar(&p.report, "report", "", "write a page for each paper into `DIR`: DIR/drtm.html")
	f.StringVar(&p.plots, "plots", "", "write each plot into `DIR` as a drawing: DIR/rtx-figure-14.svg")
	return c
}

// listPapers prints what there is.
func (a *app) listPapers(args []string, p *reproduceFlags) error {
	if p.quick || p.seeds != 0 || p.report != "" || p.plots != "" || p.mutation != "" {
		return usagef("it takes a SYSTEM and --json", "--list runs nothing")
	}
	l := report.PaperList{}
	var known []string
	for _, s := range reproduce.Systems() {
		known = append(known, s.Name)
		if len(args) == 0 || args[0] == s.Name || args[0] == reproduce.All {
			l.Systems = append(l.Systems, s.List())
		}
	}
	if len(args) > 1 || len(l.Systems) == 0 {
		return usagef("papers: "+strings.Join(known, ", "), "--list takes one paper, not %q",
			strings.Join(args, " "))
	}
	if p.json {
		return l.WriteJSON(a.stdout)
	}
	return l.WriteText(a.stdout)
}

// checked makes a run of a command line.
func (p *reproduceFlags) checked(c *cobra.Command, args []string) (*reproduceRun, error) {
	if len(args) == 0 {
		return nil, usagef("drtmd reproduce --list names tables and figures",
			"nothing to reproduce was named")
	}
	items, err := reproduce.Select(reproduce.Systems(), args)
	if err == nil {
		err = reproduce.Runnable(items)
	}
	var unknown *reproduce.UnknownError
	var notDone *reproduce.NotDoneError
	switch {
	case errors.As(err, &unknown), errors.As(err, &notDone):
		return nil, usagef("", "%v", err)
	case err != nil:
		return nil, err
	case len(items) == 0:
		return nil, usagef("drtmd reproduce --list says what they wait for", "no item of %s is done",
			strings.Join(args, " "))
	}
	if c.Flags().Changed("seeds") && (p.seeds < 1 || p.seeds > reproduce.MaxSeeds) {
		return nil, usagef("", "--seeds %d is not in 1..%d", p.seeds, reproduce.MaxSeeds)
	}
	if p.mutation != "" {
		if err := reproduce.CheckMutation(items, p.mutation); err != nil {
			return nil, usagef("", "--mutation %s: %v", p.mutation, err)
		}
	}
	r := &reproduceRun{flags: p, items: items}
	r.options = reproduce.Options{Quick: p.quick, Seeds: p.seeds, Mutation: p.mutation}
	if p.seeds == 0 {
		r.options.Seeds = reproduce.DefaultSeeds
		if p.quick {
			r.options.Seeds = reproduce.QuickSeeds
		}
	}
	for _, dir := range []string{p.report, p.plots} {
		if dir == "" {
			continue
		}
		if err := report.PrepareReproduction(dir); err != nil {
			return nil, err
		}
	}
	r.doc = report.Reproduction{Date: time.Now().UTC(), Machine: report.ThisMachine(), Quick: p.quick,
		Seeds: r.options.Seeds}
	return r, nil
}
