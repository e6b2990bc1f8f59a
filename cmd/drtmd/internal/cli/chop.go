package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"drtmd/cmd/drtmd/internal/report"
	"drtmd/proto/chop"
	"drtmd/proto/workload"
)

const chopLong = `chop shows into which pieces the transactions of a workload may be chopped, and why not
further (DrTM §4). Each piece can commit by itself, in a small region, and the whole remains
serializable. Nothing is executed: the answer follows from what the workload declares.

  S-edge     connects the pieces of one transaction
  C-edge     connects pieces of two transactions that conflict: the same table or columns, and not
             two reads, nor two additions. Two instances of a transaction conflict as well
  SC-cycle   a cycle of both. What lies on one becomes one piece

Three things more make pieces larger: a user may abort in the first piece only; a piece cannot need
another one that needs it; and pieces run in the order of what they need.

The default chopping has additions that commute, and reordered pieces (§4.1). The optimised one also
  - searches indexes outside of regions, if no transaction inserts into them or deletes (§4.3)
  - defers additions to a barrier, for which their readers wait (§4.2), if no other path of conflicts
    leads from publisher to subscriber
  - runs read-only transactions in two rounds, outside of the graph (§4.4)

The workloads %s declare their pieces. docs/CHOP.md says how to declare them,
and describes the JSON.

Exit codes:
  0    done
  1    failed
  2    wrong command line`

const chopExample = `  drtmd chop tpcc
  drtmd chop tpcc --chopping optimised
  drtmd chop tpcc --svg tpcc.svg       drawn as Figure 7
  drtmd chop smallbank --json`

// chopFlags are the flags as given.
type chopFlags struct {
	json     bool
	svg      string
	chopping string
}

func (a *app) chopCommand() *cobra.Command {
	p := &chopFlags{}
	c := &cobra.Command{
		Use:     "chop WORKLOAD",
		Short:   "show the pieces into which transactions may be chopped, and why",
		Long:    fmt.Sprintf(chopLong, strings.Join(a.choppable(), " and ")),
		Example: chopExample,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("workloads with pieces: "+strings.Join(a.choppable(), ", "),
					"chop takes one workload, not %d arguments", len(args))
			}
			return nil
		},
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return a.choppable(), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(_ *cobra.Command, args []string) error { return a.chop(args[0], p) },
	}
	f := c.Flags()
	f.BoolVar(&p.json, "json", false, "print JSON (schema "+report.ChopSchema+")")
	f.StringVar(&p.svg, "svg", "", "draw pieces and edges into `FILE`, too")
	f.StringVar(&p.chopping, "chopping", "both", "default, optimised or both")
	return c
}

// choppable are the workloads that declare pieces.
func (a *app) choppable() (names []string) {
	for _, w := range a.has.Workloads {
		if w.Pieces != nil {
			names = append(names, w.Name)
		}
	}
	return names
}

func (a *app) chop(name string, p *chopFlags) error {
	hint := "workloads with pieces: " + strings.Join(a.choppable(), ", ")
	w, err := workload.Find(a.has.Workloads, name)
	if err != nil {
		if near, ok := nearest(name, a.choppable()); ok {
			hint = "did you mean " + near + "? " + hint
		}
		return usagef(hint, "unknown workload %q", name)
	}
	if w.Pieces == nil {
		return usagef(hint, "workload %s declares no pieces", name)
	}
	d := report.Chopping{Workload: name}
	switch p.chopping {
	case "default", "optimised", "both":
	default:
		return usagef("use default, optimised or both", "unknown --chopping %q", p.chopping)
	}
	var tables []string
	for _, t := range w.Tables {
		tables = append(tables, t.Name)
	}
	if err := w.Pieces.Check(tables); err != nil {
		return fmt.Errorf("pieces of %s: %w", name, err)
	}
	for _, optimised := range []bool{false, true} {
		if p.chopping == "default" && optimised || p.chopping == "optimised" && !optimised {
			continue
		}
		r, err := chop.Analyse(w.Pieces, chop.Options{Optimised: optimised})
		if err != nil {
			return err
		}
		d.Results = append(d.Results, r)
	}
	if p.svg != "" {
		if err := noFolder(p.svg, ""); err != nil {
			return err
		}
		if err := writeFile(p.svg, d.WriteSVG); err != nil {
			return err
		}
	}
	if p.json {
		return d.WriteJSON(a.stdout)
	}
	return d.WriteText(a.stdout)
}
