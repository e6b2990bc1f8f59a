package reproduce

import (
	"context"
	"fmt"
	"strings"

	"drtmd/cmd/drtmd/internal/report"
	protoscenario "drtmd/proto/scenario"
	"drtmd/verbs/scenario"
)

// Table 1 of Dandelion: which protocols are model checked. Here small worlds are run in orders of their messages.

// checkedWorld is a small world of a protocol, with a step that some order of it shows to be left out.
type checkedWorld struct{ protocol, settings, leftOut string }

// checkedWorlds are of the protocols of Dandelion; their orders are in proto/scenario/testdata/orders.txt.
func checkedWorlds() []checkedWorld {
	return []checkedWorld{
		{dnl4Name, "script=skew,replicas=3", "no-validate"},
		{dnl2Name, "script=skew,replicas=3", "read-set-not-locked"},
		{dnl1Name, "script=cross,replicas=3", "one-backup-lock-not-awaited"},
	}
}

// mostOrders bounds the runs of a small world here. "make soak" makes 20,000 of each.
const mostOrders = 12

// holds reports whether the world holds in the first orders of its messages, also with a crash behind each, and whether
// they show that the step is left out.
func (w checkedWorld) holds(ctx context.Context) (bool, error) {
	s, err := scenario.Find(protoscenario.All(), "small-"+w.protocol)
	if err != nil {
		return false, err
	}
	settings, err := scenario.ParseSettings(w.settings)
	if err != nil {
		return false, err
	}
	run := func(crashes bool, mutation string) (scenario.OrdersResult, error) {
		return scenario.Orders(ctx, s, scenario.OrdersOptions{Crashes: crashes, Most: mostOrders,
			Options: scenario.Options{Seed: 1, Nodes: s.Nodes, Workers: 1, Settings: settings, Mutation: mutation}})
	}
	for _, crashes := range []bool{false, true} {
		x, err := run(crashes, "")
		if err != nil || x.Failure != nil || x.Orders+x.Crashes == 0 {
			return false, err
		}
	}
	x, err := run(false, w.leftOut)
	return x.Failure != nil, err
}

// modelChecked is the row of how many protocols are checked so.
func modelChecked(ctx context.Context, worlds []checkedWorld) (report.ComparedRow, error) {
	var names []string
	for _, w := range worlds {
		is, err := w.holds(ctx)
		if err != nil {
			return report.ComparedRow{}, fmt.Errorf("orders of %s: %w", w.protocol, err)
		}
		if is {
			names = append(names, w.protocol)
		}
	}
	return word("protocols of Dandelion that are model checked", "Table 1", "3", fmt.Sprint(len(names)), fmt.Sprintf("%s: a small "+
		"world of each holds in %d orders of its messages and with crashes, and shows a step that is left out (%s); all orders: "+
		"drtmd sim --scenario small-dnl4 --every-order", strings.Join(names, ", "), mostOrders, leftOut(worlds))), nil
}

func leftOut(worlds []checkedWorld) string {
	var names []string
	for _, w := range worlds {
		names = append(names, w.leftOut)
	}
	return strings.Join(names, ", ")
}
