// Package workloads names the workloads that run transactions, and makes them from settings that
// can be sent to another process.
package workloads

import (
	"fmt"
	"strings"

	"drtmd/proto/workload"
	"drtmd/proto/workload/micro"
	"drtmd/proto/workload/smallbank"
)

// Settings of all workloads; each takes the ones that it knows.
type Settings struct {
	Accounts    int     `json:"accounts,omitempty"`     // smallbank: customers per node
	HotAccounts float64 `json:"hot_accounts,omitempty"` // smallbank: share of them that is hot
	HotAccess   float64 `json:"hot_access,omitempty"`   // smallbank: share of accesses to those
	Theta       float64 `json:"theta,omitempty"`        // smallbank: Zipf's, instead of hot ones
	Keys        int     `json:"keys,omitempty"`         // micro: keys of each table per node
	// Distributed is the probability that a transaction reaches another node; in a cluster of one
	// it counts as 0.
	Distributed float64 `json:"distributed"`
}

// Default are the settings that nothing else is said of.
func Default() Settings {
	b, m := smallbank.Default(1), micro.Default(1)
	return Settings{Accounts: b.Accounts, HotAccounts: b.HotAccounts, HotAccess: b.HotAccess,
		Keys: m.Keys, Distributed: b.Distributed}
}

// Kind is a workload by name.
type Kind struct {
	Name, Doc string
	// Takes are the settings that it knows, by the names of their flags.
	Takes []string
	make  func(nodes int, s Settings) (workload.Workload, string, error)
}

// Kinds lists the workloads.
func Kinds() []Kind {
	return []Kind{
		{"smallbank", "bank customers with two accounts, six transactions (DrTM Table VII)",
			[]string{"accounts", "hot-accounts", "hot-access", "theta", "distributed"}, bank},
		{"micro", "inserts, deletes, absent reads, dependent transactions on few records",
			[]string{"keys", "distributed"}, small},
	}
}

// DefaultName is the workload that runs where none is named: the first of the list.
func DefaultName() string { return Kinds()[0].Name }

// UnknownError is a workload that there is none of.
type UnknownError struct{ Name string }

func (e *UnknownError) Error() string {
	var known []string
	for _, k := range Kinds() {
		known = append(known, k.Name)
	}
	return fmt.Sprintf("unknown workload %q; known: %s", e.Name, strings.Join(known, ", "))
}

// New makes a workload for a cluster of nodes, and says in words what it is.
func New(name string, nodes int, s Settings) (workload.Workload, string, error) {
	for _, k := range Kinds() {
		if k.Name == name {
			if nodes == 1 {
				s.Distributed = 0
			}
			return k.make(nodes, s)
		}
	}
	return nil, "", &UnknownError{Name: name}
}

func bank(nodes int, s Settings) (workload.Workload, string, error) {
	o := smallbank.Default(nodes)
	o.Accounts, o.HotAccounts, o.HotAccess, o.Theta = s.Accounts, s.HotAccounts, s.HotAccess, s.Theta
	o.Distributed = s.Distributed
	b, err := smallbank.New(o)
	if err != nil {
		return nil, "", err
	}
	skew := fmt.Sprintf("%g %% of them get %g %% of the accesses", 100*o.HotAccounts, 100*o.HotAccess)
	if o.Theta != 0 {
		skew = fmt.Sprintf("Zipf %g", o.Theta)
	}
	return b, fmt.Sprintf("%d customers per node, %s, %g %% of payments and amalgamations distributed",
		o.Accounts, skew, 100*o.Distributed), nil
}

func small(nodes int, s Settings) (workload.Workload, string, error) {
	o := micro.Options{Nodes: nodes, Keys: s.Keys, Distributed: s.Distributed}
	m, err := micro.New(o)
	if err != nil {
		return nil, "", err
	}
	return m, fmt.Sprintf("%d keys of each table per node, %g %% of the records on other nodes",
		o.Keys, 100*o.Distributed), nil
}
