package cli

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"drtmd/cmd/drtmd/internal/load"
	"drtmd/cmd/drtmd/internal/report"
	"drtmd/proto"
	"drtmd/proto/check"
	"drtmd/proto/node"
	"drtmd/proto/workload/smallbank"
	"drtmd/verbs"
)

// cutForGood cuts two nodes off each other: their queue pairs fail, and there is no room for others.
func cutForGood(ctx context.Context, c *node.Cluster) error {
	err := c.Inspect(ctx, func(w *node.Worker) {
		for {
			if _, err := w.Worker.NewConn(verbs.AccessAll); err != nil {
				return
			}
		}
	})
	for _, w := range c.Workers() {
		err = errors.Join(err, w.BreakLink(1-w.Node))
	}
	return err
}

// unsettledRun is a run of two nodes that are cut off each other in the middle.
func unsettledRun(t *testing.T, protocol string) (kinds []string, res *load.Result, err error) {
	t.Helper()
	p, err := node.FindProtocol(protocol)
	if err != nil {
		t.Fatal(err)
	}
	so := smallbank.Default(2)
	so.Accounts, so.Distributed = 1000, 1
	bank, err := smallbank.New(so)
	if err != nil {
		t.Fatal(err)
	}
	cut := make(chan error, 1)
	o := load.Options{Workload: bank, Seed: 1, Duration: 300 * time.Millisecond, SampleEvery: 1,
		Settle: 100 * time.Millisecond}
	o.Open = func(ctx context.Context) (*node.Cluster, error) {
		c, err := node.NewLocal(ctx, node.LocalConfig{Threads: 2, Config: node.Config{Protocol: p,
			Workload: bank, Nodes: 2, Fibers: 8, Seed: 1, Record: &node.Recording{}}})
		if err != nil {
			return nil, err
		}
		go func() {
			time.Sleep(150 * time.Millisecond)
			cut <- cutForGood(ctx, c)
		}()
		return c, nil
	}
	res, err = load.Run(t.Context(), o)
	if e := <-cut; e != nil {
		t.Fatal(e)
	}
	return bank.Kinds(), res, err
}

// A run whose nodes cannot reach each other to its end reports what it measured, says why its sums are
// not judged, and exits with 1; what is known of its history holds.
func TestRunThatCannotSettleReportsAndExitsWith1(t *testing.T) {
	for _, protocol := range []string{"drtm", "twopl", "farm"} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			var kinds []string
			var res *load.Result
			var err error
			for range 20 { // a cut leaves nothing owed if it finds no lock held
				kinds, res, err = unsettledRun(t, protocol)
				if res == nil {
					t.Fatal(err)
				}
				if err != nil {
					break
				}
				if err := res.History.Close(); err != nil {
					t.Fatal(err)
				}
			}
			defer res.History.Close()
			var unsettled *load.UnsettledError
			if !errors.As(err, &unsettled) || unsettled.Owed == 0 || unsettled.UnderWay {
				t.Fatalf("the run ended with %v", err)
			}
			if code := exitCode(t.Context(), err); code != exitFailed {
				t.Errorf("exit code %d", code)
			}
			if res.Sum.Outcomes(proto.Committed) == 0 {
				t.Error("nothing was measured")
			}
			r, err := check.History(t.Context(), res.History, check.Options{UserAborts: true})
			if err != nil || r.Verdict != check.Serializable || r.FinalKeys == nil {
				t.Errorf("the history: %v, %v", r, err)
			}
			var text strings.Builder
			doc := &report.Bench{Check: r}
			doc.Fill(kinds, "the sums", res)
			if err := doc.WriteText(&text); err != nil {
				t.Fatal(err)
			}
			for _, want := range []string{"sums conserved: unknown: ", " updates or locks are owed to " +
				"nodes that could not be reached for 100ms: the sums cannot be judged; look for the " +
				"network's fault", "strictly serializable: yes"} {
				if !strings.Contains(text.String(), want) {
					t.Errorf("the report does not say %q:\n%s", want, text.String())
				}
			}
			if err := doc.WriteJSON(io.Discard); err != nil || doc.Unsettled == "" {
				t.Errorf("the JSON: %q, %v", doc.Unsettled, err)
			}
		})
	}
}
