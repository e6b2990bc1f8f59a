package cli

import (
	"strings"

	"github.com/spf13/pflag"

	"drtmd/cmd/drtmd/internal/workloads"
	"drtmd/proto/workload/lookup"
	"drtmd/proto/workload/micro"
	"drtmd/proto/workload/smallbank"
)

// workloadFlags are those that workloads take.
type workloadFlags struct {
	accounts, keys, slots  int
	hotAccounts, hotAccess float64
	theta, distributed     float64
}

func (p *workloadFlags) register(f *pflag.FlagSet) {
	d := smallbank.Default(1)
	f.IntVar(&p.accounts, "accounts", d.Accounts, "smallbank: `N` customers per node")
	f.IntVar(&p.keys, "keys", micro.Default(1).Keys, "micro: `N` keys of each table per node; few "+
		"keys conflict often")
	f.IntVar(&p.slots, "slots", lookup.DefaultSlots, "lookup: `N` main slots of each structure")
	f.Float64Var(&p.hotAccounts, "hot-accounts", d.HotAccounts, "smallbank: `SHARE` of the "+
		"customers that are hot")
	f.Float64Var(&p.hotAccess, "hot-access", d.HotAccess, "smallbank: `SHARE` of the accesses "+
		"that go to hot customers")
	f.Float64Var(&p.theta, "theta", 0, "smallbank: Zipf `THETA` instead of hot customers")
	f.Float64Var(&p.distributed, "distributed", d.Distributed, "`P`: probability that a "+
		"transaction on two customers (smallbank) or several records (micro) reaches another node; "+
		"one node: 0")
}

// settings of the workload.
func (p *workloadFlags) settings() workloads.Settings {
	return workloads.Settings{Accounts: p.accounts, HotAccounts: p.hotAccounts,
		HotAccess: p.hotAccess, Theta: p.theta, Keys: p.keys, Distributed: p.distributed}
}

// lookupName stands for the table that package lookup computes: no transactions run.
const lookupName = "lookup"

// benchWorkload is a workload by name.
type benchWorkload struct {
	name, doc string
	flags     []string // those of workloadFlags that it takes
}

func benchWorkloads() []benchWorkload {
	var all []benchWorkload
	for _, k := range workloads.Kinds() {
		all = append(all, benchWorkload{k.Name, k.Doc, k.Takes})
	}
	return append(all, benchWorkload{lookupName,
		"READs per look-up in DrTM's hash table, beside Table VI; no transactions",
		[]string{"slots"}})
}

// findWorkload finds a workload by name.
func findWorkload(name string) (benchWorkload, error) {
	var known []string
	for _, w := range benchWorkloads() {
		if w.name == name {
			return w, nil
		}
		known = append(known, w.name)
	}
	return benchWorkload{}, usagef("known: "+strings.Join(known, ", "), "unknown workload %q", name)
}
