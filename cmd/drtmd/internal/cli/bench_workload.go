package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"drtmd/proto/workload"
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

// benchWorkload is a workload by name.
type benchWorkload struct {
	name, doc string
	// flags are those of workloadFlags that it takes.
	flags []string
	// make builds it; nil: it is no load but a computation (lookup).
	make func(p *benchFlags) (workload.Workload, string, error)
}

func benchWorkloads() []benchWorkload {
	return []benchWorkload{
		{"smallbank", "bank customers with two accounts, six transactions (DrTM Table VII)",
			[]string{"accounts", "hot-accounts", "hot-access", "theta", "distributed"}, makeBank},
		{"micro", "inserts, deletes, absent reads, dependent transactions on few records",
			[]string{"keys", "distributed"}, makeMicro},
		{lookupName, "READs per look-up in DrTM's hash table, beside Table VI; no transactions",
			[]string{"slots"}, nil},
	}
}

// lookupName stands for the table that package lookup computes.
const lookupName = "lookup"

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

// probability of what reaches another node: none of that in a cluster of one.
func (p *benchFlags) probability() float64 {
	if p.nodes == 1 {
		return 0
	}
	return p.distributed
}

func makeBank(p *benchFlags) (workload.Workload, string, error) {
	o := smallbank.Default(p.nodes)
	o.Accounts, o.HotAccounts, o.HotAccess, o.Theta = p.accounts, p.hotAccounts, p.hotAccess, p.theta
	o.Distributed = p.probability()
	b, err := smallbank.New(o)
	if err != nil {
		return nil, "", usagef("", "%v", err)
	}
	skew := fmt.Sprintf("%g %% of them get %g %% of the accesses", 100*o.HotAccounts, 100*o.HotAccess)
	if o.Theta != 0 {
		skew = fmt.Sprintf("Zipf %g", o.Theta)
	}
	return b, fmt.Sprintf("%d customers per node, %s, %g %% of payments and amalgamations distributed",
		o.Accounts, skew, 100*o.Distributed), nil
}

func makeMicro(p *benchFlags) (workload.Workload, string, error) {
	o := micro.Options{Nodes: p.nodes, Keys: p.keys, Distributed: p.probability()}
	m, err := micro.New(o)
	if err != nil {
		return nil, "", usagef("", "%v", err)
	}
	return m, fmt.Sprintf("%d keys of each table per node, %g %% of the records on other nodes",
		o.Keys, 100*o.Distributed), nil
}
