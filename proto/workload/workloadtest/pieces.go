package workloadtest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"drtmd/proto"
	"drtmd/proto/chop"
	"drtmd/proto/workload"
)

// pieceTransactions of a client touch all that the pieces of a workload declare.
const pieceTransactions = 400

// checkPieces compares the operations that a workload declares for chopping with what its transactions touch, by
// tables: all that is touched is declared, and all changes that are declared happen.
func checkPieces(s *workload.Spec, w workload.Workload, nodes int) error {
	if s.Pieces == nil {
		return nil
	}
	var tables []string
	for _, t := range s.Tables {
		tables = append(tables, t.Name)
	}
	if err := s.Pieces.Check(tables); err != nil {
		return err
	}
	if len(s.Pieces.Transactions) != len(s.Transactions) {
		return fmt.Errorf("%d transactions are declared, of %d", len(s.Pieces.Transactions), len(s.Transactions))
	}
	for i, t := range s.Pieces.Transactions {
		if x := s.Transactions[i]; t.Name != x.Name || t.ReadOnly != x.ReadOnly {
			return fmt.Errorf("transaction %d is %s, and declared as %s", i+1, x.Name, t.Name)
		}
	}
	store, err := Load(w, nodes)
	if err != nil {
		return err
	}
	var undeclared error
	happened := map[[2]string]bool{} // transaction, access
	_, err = store.Run(w.NewClient(0, rand.New(rand.NewPCG(3, 3))), pieceTransactions, func(x *Transaction) {
		t := &s.Pieces.Transactions[x.Decl.Kind-1]
		for _, a := range x.Touched {
			at := declares(t, tables[a.Table-1], a.Mode)
			if len(at) == 0 && undeclared == nil {
				undeclared = fmt.Errorf("%s does not declare its %v of %s", t.Name, a.Mode, tables[a.Table-1])
			}
			for _, d := range at {
				happened[[2]string{t.Name, d.String()}] = true
			}
		}
	})
	if err := errors.Join(err, undeclared); err != nil {
		return err
	}
	for _, t := range s.Pieces.Transactions {
		for _, o := range t.Ops {
			for _, a := range o.Accesses {
				if a.Mode != chop.Read && !happened[[2]string{t.Name, a.String()}] {
					return fmt.Errorf("%s of %s declares %v, which does not happen", o.Name, t.Name, a)
				}
			}
		}
	}
	return nil
}

// declares are the declared accesses that an access to a table can be a part of.
func declares(t *chop.Transaction, table string, m proto.Mode) (all []chop.Access) {
	modes := map[proto.Mode][]chop.Mode{proto.ModeWrite: {chop.Write, chop.Add},
		proto.ModeInsert: {chop.Insert, chop.Append}, proto.ModeDelete: {chop.Delete}}
	for _, o := range t.Ops {
		for _, a := range o.Accesses {
			of, _, _ := strings.Cut(a.Of, ".")
			if of == table && (m == proto.ModeRead || slices.Contains(modes[m], a.Mode)) {
				all = append(all, a)
			}
		}
	}
	return all
}
