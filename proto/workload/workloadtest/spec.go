package workloadtest

import (
	"fmt"
	"math"

	"drtmd/proto/option"
	"drtmd/proto/workload"
)

// specTransactions of each client are enough to tell a share within a point and a half.
const specTransactions = 8000

// CheckSpec compares what a workload says of itself with what it does, on three nodes and on one: the
// names of transactions and tables, the shares of the mix, which transactions read only, the declared pieces, the shipped
// functions; and that it keeps what it says that it verifies. given are options that make it small, and change neither
// transactions nor tables.
func CheckSpec(s *workload.Spec, given option.Settings) error {
	if s.Doc == "" || s.Verify == "" {
		return fmt.Errorf("%s says nothing of itself, or of what it verifies", s.Name)
	}
	for _, name := range s.Remote {
		if _, ok := s.Options.Find(name); !ok {
			return fmt.Errorf("%s has no option %s", s.Name, name)
		}
	}
	for _, nodes := range []int{3, 1} {
		w, words, err := s.Make(nodes, given)
		if err != nil {
			return err
		}
		if w.Name() != s.Name || words == "" {
			return fmt.Errorf("%s calls itself %q, with %q", s.Name, w.Name(), words)
		}
		if err := checkNames(s, w); err != nil {
			return fmt.Errorf("%s on %d nodes: %w", s.Name, nodes, err)
		}
		if err := checkMix(s, w, nodes); err != nil {
			return fmt.Errorf("%s on %d nodes: %w", s.Name, nodes, err)
		}
		if err := checkPieces(s, w, nodes); err != nil {
			return fmt.Errorf("pieces of %s on %d nodes: %w", s.Name, nodes, err)
		}
		if err := checkFunctions(s, given, nodes); err != nil {
			return fmt.Errorf("shipped functions of %s on %d nodes: %w", s.Name, nodes, err)
		}
	}
	return nil
}

func checkNames(s *workload.Spec, w workload.Workload) error {
	kinds, tables := w.Kinds(), w.Tables()
	if len(kinds) != len(s.Transactions) || len(tables) != len(s.Tables) {
		return fmt.Errorf("%d kinds of transactions and %d tables, described are %d and %d", len(kinds),
			len(tables), len(s.Transactions), len(s.Tables))
	}
	for i, x := range s.Transactions {
		if kinds[i] != x.Name || x.Doc == "" {
			return fmt.Errorf("transaction %d is %s, and described as %s, %q", i+1, kinds[i], x.Name, x.Doc)
		}
	}
	for i, x := range s.Tables {
		if tables[i].Name != x.Name || x.Doc == "" {
			return fmt.Errorf("table %d is %s, and described as %s, %q", i+1, tables[i].Name, x.Name, x.Doc)
		}
	}
	return nil
}

func checkMix(s *workload.Spec, w workload.Workload, nodes int) error {
	var drawn [workload.MaxKinds + 1]float64
	var wrong error
	err := Check(w, nodes, specTransactions, 1, func(x *Transaction) {
		k := x.Decl.Kind
		drawn[k]++
		if said := &s.Transactions[k-1]; x.Decl.ReadOnly != said.ReadOnly {
			wrong = fmt.Errorf("%s is read-only: %v, and described: %v", said.Name, x.Decl.ReadOnly, said.ReadOnly)
		}
	})
	if err != nil {
		return err
	}
	sum := 0
	for i, x := range s.Transactions {
		got := 100 * drawn[i+1] / float64(nodes*specTransactions)
		if math.Abs(got-float64(x.Percent)) > 1.5 {
			return fmt.Errorf("%s is %.1f %% of the mix, and described as %d %%", x.Name, got, x.Percent)
		}
		sum += x.Percent
	}
	if sum != 100 {
		return fmt.Errorf("the described mix adds up to %d %%", sum)
	}
	return wrong
}
