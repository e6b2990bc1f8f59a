package workload

import (
	"fmt"
	"slices"
	"strings"

	"drtmd/proto/chop"
	"drtmd/proto/option"
)

// Spec is a workload as it describes itself. Command lines, configuration files, plans that travel
// between daemons, help and documents are made from it: a workload's package exports a function that
// gives its Spec, and a composition lists it.
//
// A Spec is a value without state: it may be copied and used by any goroutine.
type Spec struct {
	Name string
	Doc  string // one line
	// Options that New takes the values of.
	Options option.List
	// Remote are the options that say how many accesses reach other nodes: numbers, or switches. A
	// cluster of one has no other node, so that Make takes them as 0 or off.
	Remote []string
	// Transactions and Tables are those of the default options, in the order of Decl.Kind and of the
	// tables' ids.
	Transactions []Transaction
	Tables       []Table
	// PerMinute is the transaction whose rate reports give per minute, as the workload's specification does; "":
	// none.
	PerMinute string
	// Verify says in a line what Workload.Check checks after a run. Reports print it with the number of
	// records that were read.
	Verify string
	// Pieces declares the operations of the transactions, for chopping; nil: the workload declares none.
	Pieces *chop.Workload
	// Functions are the transactions that may be executed elsewhere than at their client; nil: none.
	Functions []Function
	// Words says in a line what the options make of the workload, for reports; nil: each option with
	// its value.
	Words func(nodes int, v option.Values) string
	// New makes the workload for a cluster of nodes. Call Make.
	New func(nodes int, v option.Values) (Workload, error)
}

// Transaction is a kind of transaction.
type Transaction struct {
	Name     string
	Doc      string // what it does
	Percent  int    // share of the mix
	ReadOnly bool
}

// Table is one of a workload's tables.
type Table struct {
	Name string
	Doc  string // what its records are
}

func (s Spec) String() string { return s.Name }

// Make makes the workload for a cluster of nodes from the options that were given, and says in words
// what it is. An option that the workload lacks, or whose value it does not take, is an *option.Error.
func (s *Spec) Make(nodes int, given option.Settings) (Workload, string, error) {
	v, err := s.Options.Values(given)
	if err == nil && nodes == 1 && len(s.Remote) > 0 {
		v, err = s.Options.Values(s.alone(given))
	}
	if err != nil {
		return nil, "", err
	}
	w, err := s.New(nodes, v)
	if err != nil {
		return nil, "", err
	}
	if s.Words != nil {
		return w, s.Words(nodes, v), nil
	}
	return w, s.plainWords(v), nil
}

// alone are the settings of a cluster of one.
func (s *Spec) alone(given option.Settings) option.Settings {
	own := given.Clone()
	for _, name := range s.Remote {
		own[name] = "0" // of a number; of a switch as well
	}
	return own
}

// plainWords lists the options.
func (s *Spec) plainWords(v option.Values) string {
	var all []string
	for _, o := range s.Options {
		all = append(all, strings.ReplaceAll(o.Name, "-", " ")+" "+option.Text(v.Any(o.Name)))
	}
	if len(all) == 0 {
		return s.Doc
	}
	return strings.Join(all, ", ")
}

// UnknownError names a workload that does not exist.
type UnknownError struct {
	Name  string
	Known []string
}

func (e *UnknownError) Error() string {
	return fmt.Sprintf("unknown workload %q; known: %s", e.Name, strings.Join(e.Known, ", "))
}

// Find finds a workload by name, or fails with an *UnknownError.
func Find(all []Spec, name string) (*Spec, error) {
	if i := slices.IndexFunc(all, func(s Spec) bool { return s.Name == name }); i >= 0 {
		return &all[i], nil
	}
	e := &UnknownError{Name: name}
	for _, s := range all {
		e.Known = append(e.Known, s.Name)
	}
	return nil, e
}
