package workloadtest

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"

	"drtmd/proto"
	"drtmd/proto/option"
	"drtmd/proto/workload"
)

// functionTransactions are enough for every function, with the longest argument that it has.
const functionTransactions = 4000

// checkFunctions compares shipped functions with the transactions that they stand for: two clients draw the same
// transactions on two stores; of one all are executed, of the other those are shipped that have a function. Both
// come to the same outcomes, records, results and sums.
func checkFunctions(s *workload.Spec, given option.Settings, nodes int) error {
	if len(s.Functions) == 0 {
		return nil
	}
	if err := s.CheckFunctions(); err != nil {
		return err
	}
	executed, err := newSide(s, given, nodes)
	if err != nil {
		return err
	}
	other, err := newSide(s, given, nodes)
	if err != nil {
		return err
	}
	x := &shipping{spec: s, side: other, places: map[uint16]workload.Shipped{}, longest: map[uint16][2]int{}}
	for i := range functionTransactions {
		if err := x.compare(executed); err != nil {
			return fmt.Errorf("transaction %d: %w", i+1, err)
		}
	}
	if !maps.EqualFunc(executed.store.Records, other.store.Records, bytes.Equal) {
		return errors.New("the tables differ in the end")
	}
	if a, b := executed.ledger(), other.ledger(); a.Committed != b.Committed {
		return fmt.Errorf("the clients have done %v, and %v by functions", a.Committed, b.Committed)
	}
	for _, f := range s.Functions {
		if got := x.longest[f.Number]; x.places[f.Number] == nil || got != [2]int{f.ArgumentBytes, f.ResultBytes} {
			return fmt.Errorf("function %s: the longest argument and result have %v bytes, and declared are %d and %d",
				f.Name, got, f.ArgumentBytes, f.ResultBytes)
		}
	}
	return nil
}

// side is a store with a client of its last node.
type side struct {
	store  *Store
	client workload.Client
	tx     *txn
}

func newSide(s *workload.Spec, given option.Settings, nodes int) (*side, error) {
	w, _, err := s.Make(nodes, given)
	if err != nil {
		return nil, err
	}
	store, err := Load(w, nodes)
	if err != nil {
		return nil, err
	}
	return &side{store, w.NewClient(proto.NodeID(nodes-1), rand.New(rand.NewPCG(7, 7))),
		&txn{s: store, undo: map[Place][]byte{}}}, nil
}

func (x *side) ledger() (l workload.Ledger) {
	x.client.AddTo(&l)
	return l
}

// shipping is the side that ships.
type shipping struct {
	*side
	spec    *workload.Spec
	places  map[uint16]workload.Shipped // what executes each function
	longest map[uint16][2]int           // argument, result
}

// compare draws a transaction on both sides.
func (x *shipping) compare(executed *side) error {
	d, p, err := executed.store.draw(executed.client)
	if err != nil {
		return err
	}
	want, err := executed.tx.run(d, p)
	if err != nil {
		return err
	}
	d2, p2, err := x.store.draw(x.client)
	if err != nil {
		return err
	}
	if d.Kind != d2.Kind || !slices.Equal(d.Accesses, d2.Accesses) {
		return errors.New("the two clients do not draw the same")
	}
	got, err := x.ship(d2, p2)
	if err != nil {
		return fmt.Errorf("%s: %w", x.spec.Transactions[d.Kind-1].Name, err)
	}
	executed.client.Done(want.Outcome)
	x.client.Done(got.Outcome)
	if got.Outcome != want.Outcome || !slices.Equal(got.Touched, want.Touched) {
		return fmt.Errorf("%s: %v after %v, and %v after %v by its function", x.spec.Transactions[d.Kind-1].Name, want.Outcome,
			want.Touched, got.Outcome, got.Touched)
	}
	a, ok := p.(workload.Shippable)
	if ok && got.Outcome == proto.Committed && !bytes.Equal(a.Result(nil), p2.(workload.Shippable).Result(nil)) {
		return fmt.Errorf("%s: the results differ", x.spec.Transactions[d.Kind-1].Name)
	}
	for _, r := range d.Accesses {
		at := Place{r.Table, r.Key}
		if !bytes.Equal(executed.store.Records[at], x.store.Records[at]) {
			return fmt.Errorf("%s: key %#x of table %d differs", x.spec.Transactions[d.Kind-1].Name, r.Key, r.Table)
		}
	}
	return nil
}

// ship executes a transaction by its function, or as it is if it has none.
func (x *shipping) ship(d *proto.Decl, p proto.Program) (*Transaction, error) {
	s, ok := p.(workload.Shippable)
	if !ok {
		return x.tx.run(d, p)
	}
	number, argument := s.Call(nil)
	if number == 0 {
		return x.tx.run(d, p)
	}
	f := x.spec.Function(number)
	if f == nil || f.Name != x.spec.Transactions[d.Kind-1].Name {
		return nil, fmt.Errorf("it names function %d, which is not its own", number)
	}
	if !f.Fits(x.store.specs, d.Accesses) {
		return nil, fmt.Errorf("its function does not declare its records: %v", d.Accesses)
	}
	place := x.places[number]
	if place == nil {
		place = f.New(x.store.Workload)
		x.places[number] = place
	}
	if err := refused(place, d.Accesses, argument); err != nil {
		return nil, err
	}
	if err := place.Take(slices.Clone(d.Accesses), slices.Clone(argument)); err != nil {
		return nil, err
	}
	t, err := x.tx.run(d, place)
	if err != nil {
		return nil, err
	}
	result := place.Result(nil)
	x.longest[number] = [2]int{max(x.longest[number][0], len(argument)), max(x.longest[number][1], len(result))}
	if err := s.Return(append(slices.Clone(result), 0)); !errors.Is(err, workload.ErrCall) {
		return nil, fmt.Errorf("a result with a byte too many: %w", err)
	}
	return t, s.Return(result)
}

// refused checks that calls with a byte or a record too few are refused.
func refused(place workload.Shipped, records []proto.Access, argument []byte) error {
	if err := place.Take(records[1:], argument); !errors.Is(err, workload.ErrCall) {
		return fmt.Errorf("a call with a record too few: %w", err)
	}
	if n := len(argument); n > 0 {
		if err := place.Take(records, argument[:n-1]); !errors.Is(err, workload.ErrCall) {
			return fmt.Errorf("a call with a byte too few: %w", err)
		}
	}
	return nil
}
