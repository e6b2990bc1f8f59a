package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"drtmd/cmd/drtmd/internal/report"
	"drtmd/proto/check"
	"drtmd/proto/history"
)

// CheckSchema is that of the document that drtmd check --json prints.
const CheckSchema = "drtmd.check/1"

const checkLong = `check reads a history that drtmd bench --history saved, and decides whether the
run was strictly serializable. It was if all committed transactions fit into one order such that
each transaction reads what those before it wrote, and the order agrees with real time as far as
the clocks tell.

What aborted transactions read does not matter; nobody may have read what they wrote. A user abort
is an answer, so its reads are checked too, unless --user-aborts=false. A transaction with an
unknown outcome counts as committed if and only if one of its writes was read.

A violation has a name and is shown as the shortest cycle: which transaction must come before which,
why, and by which key, versions and times. docs/HISTORY.md describes the file, the names and the
JSON.

Exit codes:
  0    strictly serializable
  1    the file cannot be read
  2    wrong command line
  3    not strictly serializable, or not decided
  130  interrupted`

const checkExample = `  drtmd bench --duration 2s --history run.hist
  drtmd check run.hist`

// checkFlags are the flags as given.
type checkFlags struct {
	json, userAborts bool
	memory           uint64 // MiB
}

func (a *app) checkCommand() *cobra.Command {
	p := &checkFlags{}
	c := &cobra.Command{
		Use:     "check FILE",
		Short:   "decide whether a recorded run was strictly serializable",
		Long:    checkLong,
		Example: checkExample,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef(fmt.Sprintf("see %s --help", c.CommandPath()),
					"%s takes one file, not %d arguments", c.CommandPath(), len(args))
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			return a.checkFile(c.Context(), args[0], p)
		},
	}
	f := c.Flags()
	f.BoolVar(&p.json, "json", false, "print JSON (schema "+CheckSchema+")")
	f.Uint64Var(&p.memory, "check-memory", 0, checkMemoryUsage)
	f.BoolVar(&p.userAborts, "user-aborts", true, "also check what user-aborted transactions read")
	return c
}

// checkDocument is the result of checking a file.
type checkDocument struct {
	Schema     string         `json:"schema"`
	File       string         `json:"file"`
	Nodes      []history.Node `json:"nodes"`
	Recorded   uint64         `json:"transactions"` // whatever their outcome
	UserAborts bool           `json:"user_aborts_checked"`
	Seconds    float64        `json:"seconds"` // of wall time
	*check.Result
	format uint32
}

func (a *app) checkFile(ctx context.Context, path string, p *checkFlags) error {
	if err := noFolder(path, " that drtmd bench --history has written"); err != nil {
		return err
	}
	h, err := history.Open(path)
	if err != nil {
		return err
	}
	d := checkDocument{Schema: CheckSchema, File: path, Nodes: h.Nodes(), Recorded: h.Txns(),
		UserAborts: p.userAborts, format: h.Format()}
	start := time.Now()
	c := checking{log: a.log, terminal: a.terminal(), most: p.memory}
	d.Result, err = c.run(ctx, h, check.Options{UserAborts: p.userAborts})
	if err = errors.Join(err, h.Close()); err != nil {
		return err
	}
	d.Seconds = time.Since(start).Seconds()
	if p.json {
		e := json.NewEncoder(a.stdout)
		e.SetIndent("", "  ")
		err = e.Encode(d)
	} else {
		err = d.write(a)
	}
	if d.Verdict != check.Serializable {
		return firstError(err, &checkError{d.Verdict.String()})
	}
	return err
}

// write prints the result as text.
func (d *checkDocument) write(a *app) error {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-9s %s\n", name, fmt.Sprintf(format, args...))
	}
	line("history", "%s, format %d", d.File, d.format)
	line("recorded", "%s transactions on %s", thousands(d.Recorded), plural(len(d.Nodes), "node"))
	line("outcomes", "%s committed, %s user-aborted, %s aborted, %s unknown, of which %s count "+
		"as committed", thousands(d.Committed), thousands(d.UserAborted), thousands(d.Aborted),
		thousands(d.Unknown), thousands(d.UnknownCommitted))
	if d.Recovered+d.Revoked > 0 {
		line("recovery", "%s transactions of nodes that died were committed, %s aborted", thousands(d.Recovered),
			thousands(d.Revoked))
	}
	for _, n := range d.Nodes {
		line("clock", "node %d: %q, within %v, resolution %v", n.ID, n.Name,
			time.Duration(n.ErrorNs), time.Duration(n.ResolutionNs))
	}
	line("tables", "%s", d.contents())
	line("checked", "%s transactions, %s operations on %s keys, in %.2f s", thousands(d.Checked),
		thousands(d.Operations), thousands(d.Keys), d.Seconds)
	fmt.Fprintf(&b, "\n%s\n", report.CheckLine(d.Result))
	for _, t := range d.Tallies {
		line("found", "%s x %s", t.Anomaly, thousands(t.Count))
	}
	for _, v := range d.Violations {
		fmt.Fprintf(&b, "\n%s\n", v.Text)
	}
	_, err := fmt.Fprint(a.stdout, b.String())
	return err
}

// contents says what was known of the tables, and of versions.
func (d *checkDocument) contents() string {
	keys := func(n *uint64) string {
		if n == nil {
			return "not recorded"
		}
		return thousands(*n) + " keys"
	}
	gaps := "may be left out"
	if d.CountedVersions {
		gaps = "are all there"
	}
	after := keys(d.FinalKeys)
	if d.Replicas > 0 {
		after += fmt.Sprintf(" in %s of shards", plural(d.Replicas, "replica"))
	}
	return fmt.Sprintf("before the run: %s; after it: %s; versions %s", keys(d.InitialKeys), after, gaps)
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// terminal is stderr, if that is one for people.
func (a *app) terminal() *os.File {
	f, ok := a.stderr.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) || a.logFormat == "json" {
		return nil
	}
	return f
}
