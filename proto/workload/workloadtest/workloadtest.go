// Package workloadtest runs a workload's transactions on a map, one after the other, without protocol, store
// and network. It is for tests of a workload's mix, sizes, skew and rules.
//
// A Store checks the rules for every workload: only declared records are touched, in no stronger mode than
// declared; values have their tables' sizes; no table holds more than its capacity.
package workloadtest

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"drtmd/proto"
	"drtmd/proto/workload"
	"drtmd/verbs/fiber"
)

// Place is a record.
type Place struct {
	Table proto.TableID
	Key   proto.Key
}

// Store is the content of all nodes.
type Store struct {
	Workload workload.Workload
	Records  map[Place][]byte
	specs    []proto.TableSpec
	held     map[proto.TableID]map[proto.NodeID]int // records by table and node
	keys     map[proto.TableID][]proto.Key          // of ordered tables, in order
}

// Load makes the store of a cluster in the beginning.
func Load(w workload.Workload, nodes int) (*Store, error) {
	s := &Store{Workload: w, Records: map[Place][]byte{}, specs: w.Tables(),
		held: map[proto.TableID]map[proto.NodeID]int{}, keys: map[proto.TableID][]proto.Key{}}
	for n := range nodes {
		err := w.Load(proto.NodeID(n), func(t proto.TableID, k proto.Key, v []byte) error {
			if t >= 1 && int(t) <= len(s.specs) && s.specs[t-1].Everywhere {
				if n > 0 {
					return nil // the same as that of node 0
				}
			} else if home := w.Placement().Locate(t, k).Primary; home != proto.NodeID(n) {
				return fmt.Errorf("node %d loads key %#x of node %d", n, k, home)
			}
			return s.insert(t, k, v)
		})
		if err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *Store) spec(t proto.TableID) (*proto.TableSpec, error) {
	if t == 0 || int(t) > len(s.specs) {
		return nil, proto.ErrUnknownTable
	}
	return &s.specs[t-1], nil
}

func (s *Store) insert(t proto.TableID, k proto.Key, v []byte) error {
	spec, err := s.spec(t)
	if err != nil {
		return err
	}
	if len(v) != spec.ValueBytes {
		return fmt.Errorf("table %s: %d bytes: %w", spec.Name, len(v), proto.ErrValueSize)
	}
	if _, ok := s.Records[Place{t, k}]; ok {
		return proto.ErrExists
	}
	if s.held[t] == nil {
		s.held[t] = map[proto.NodeID]int{}
	}
	home := s.Workload.Placement().Locate(t, k).Primary
	if s.held[t][home]++; s.held[t][home] > spec.Capacity {
		return fmt.Errorf("table %s of node %d holds more than its capacity of %d", spec.Name, home,
			spec.Capacity)
	}
	s.Records[Place{t, k}] = append([]byte(nil), v...)
	s.order(t, k)
	return nil
}

// order keeps the key of a record of an ordered table. Keys of records that are gone stay.
func (s *Store) order(t proto.TableID, k proto.Key) {
	if !s.specs[t-1].Ordered {
		return
	}
	if i, is := slices.BinarySearch(s.keys[t], k); !is {
		s.keys[t] = slices.Insert(s.keys[t], i, k)
	}
}

// scan calls each with the keys of a range that have a record, in its order, until it returns false.
func (s *Store) scan(t proto.TableID, from, to proto.Key, each func(proto.Key) bool) {
	keys := s.keys[t]
	i, _ := slices.BinarySearch(keys, min(from, to))
	j, is := slices.BinarySearch(keys, max(from, to))
	if is {
		j++
	}
	keys = keys[i:j]
	for n := range keys {
		k := keys[n]
		if from > to {
			k = keys[len(keys)-1-n]
		}
		if _, ok := s.Records[Place{t, k}]; ok && !each(k) {
			return
		}
	}
}

// PeekRange implements proto.RangePeeker. There is no fiber.
func (s *Store) PeekRange(_ *fiber.Fiber, t proto.TableID, from, to proto.Key, keys []proto.Key) (n int, err error) {
	s.scan(t, from, to, func(k proto.Key) bool {
		if n < len(keys) {
			keys[n] = k
			n++
		}
		return n < len(keys)
	})
	return n, nil
}

// contents are those of a node.
type contents struct {
	s    *Store
	node proto.NodeID
}

func (c contents) Read(t proto.TableID, k proto.Key, dst []byte) error {
	return c.s.Peek(nil, t, k, dst)
}

func (c contents) Each(t proto.TableID, visit func(k proto.Key, row []byte)) {
	for p, row := range c.s.Records {
		if p.Table == t && c.has(t, p.Key) {
			visit(p.Key, row)
		}
	}
}

// has reports whether a record is one of the node's.
func (c contents) has(t proto.TableID, k proto.Key) bool {
	return c.s.specs[t-1].Everywhere || c.s.Workload.Placement().Locate(t, k).Primary == c.node
}

func (c contents) Scan(t proto.TableID, visit func(k proto.Key, row []byte) bool) error {
	c.s.scan(t, 0, math.MaxUint64, func(k proto.Key) bool {
		return !c.has(t, k) || visit(k, c.s.Records[Place{t, k}])
	})
	return nil
}

// Count is the check of a workload over all nodes.
func (s *Store) Count(nodes int) (first, last workload.Quantities, err error) {
	for n := range nodes {
		t := workload.Verify(s.Workload, proto.NodeID(n), contents{s, proto.NodeID(n)})
		if t.Wrong != "" {
			return first, last, errors.New(t.Wrong)
		}
		first, last = first.Plus(t.Initial), last.Plus(t.Final)
	}
	return first, last, nil
}

// Peek implements proto.Peeker. There is no fiber.
func (s *Store) Peek(_ *fiber.Fiber, t proto.TableID, k proto.Key, dst []byte) error {
	v, ok := s.Records[Place{t, k}]
	if !ok {
		return proto.ErrNotFound
	}
	copy(dst, v)
	return nil
}

// Transaction is one that has run.
type Transaction struct {
	Decl    *proto.Decl // valid during the call
	Outcome proto.Outcome
	Touched []proto.Access // in order, each operation; valid during the call
}

// Run draws n transactions from a client, runs them, and calls each with what came of them. Ledger is
// what they did.
func (s *Store) Run(client workload.Client, n int, each func(*Transaction)) (workload.Ledger, error) {
	var ledger workload.Ledger
	tx := &txn{s: s, undo: map[Place][]byte{}}
	for range n {
		d, p, err := s.draw(client)
		if err != nil {
			return ledger, err
		}
		x, err := tx.run(d, p)
		if err != nil {
			return ledger, err
		}
		client.Done(x.Outcome)
		if each != nil {
			each(x)
		}
	}
	client.AddTo(&ledger)
	return ledger, nil
}

// draw draws a transaction, and plans it if it is dependent.
func (s *Store) draw(client workload.Client) (*proto.Decl, proto.Program, error) {
	d, p := client.Next()
	if dep, ok := p.(proto.Dependent); ok {
		if err := dep.Plan(nil, s, d); err != nil {
			return nil, nil, fmt.Errorf("plan of a transaction of kind %d: %w", d.Kind, err)
		}
	}
	return d, p, nil
}

// run runs a program that has a declaration.
func (x *txn) run(d *proto.Decl, p proto.Program) (*Transaction, error) {
	x.begin(d)
	err := p.Execute(x)
	t := &Transaction{Decl: d, Outcome: proto.Committed, Touched: x.touched}
	switch {
	case errors.Is(err, proto.ErrRollback):
		t.Outcome = proto.RolledBack
		x.rollBack()
	case err != nil:
		return nil, fmt.Errorf("transaction of kind %d: %w", d.Kind, err)
	}
	return t, nil
}

// Check runs n transactions of a client on each node, and that the sums add up afterwards.
func Check(w workload.Workload, nodes, n int, seed uint64, each func(*Transaction)) error {
	s, err := Load(w, nodes)
	if err != nil {
		return err
	}
	var all workload.Ledger
	for home := range nodes {
		l, err := s.Run(w.NewClient(proto.NodeID(home), rand.New(rand.NewPCG(seed, uint64(home)))), n,
			each)
		if err != nil {
			return fmt.Errorf("client of node %d: %w", home, err)
		}
		all.Add(&l)
	}
	first, last, err := s.Count(nodes)
	if err != nil {
		return err
	}
	return all.Explains(first, last, w.Sums()...)
}

// txn is a proto.Txn on the map.
type txn struct {
	s       *Store
	d       *proto.Decl
	touched []proto.Access
	undo    map[Place][]byte // as it was; nil: no record
}

func (x *txn) begin(d *proto.Decl) {
	x.d, x.touched = d, x.touched[:0]
	clear(x.undo)
}

// touch checks an access against the declaration.
func (x *txn) touch(t proto.TableID, k proto.Key, m proto.Mode, value []byte) error {
	spec, err := x.s.spec(t)
	if err != nil {
		return err
	}
	if value != nil && len(value) != spec.ValueBytes {
		return fmt.Errorf("table %s: %d bytes: %w", spec.Name, len(value), proto.ErrValueSize)
	}
	x.touched = append(x.touched, proto.Access{Table: t, Key: k, Mode: m})
	for i := range x.d.Accesses {
		a := &x.d.Accesses[i]
		if a.Table != t || a.Key != k {
			continue
		}
		if a.Mode == m || m == proto.ModeRead || m == proto.ModeWrite && a.Mode > m {
			return nil
		}
	}
	return fmt.Errorf("%v of table %s key %#x: %w", m, spec.Name, k, proto.ErrUndeclared)
}

func (x *txn) Read(t proto.TableID, k proto.Key, dst []byte) error {
	return x.read(t, k, dst, proto.ModeRead)
}

func (x *txn) GetForUpdate(t proto.TableID, k proto.Key, dst []byte) error {
	return x.read(t, k, dst, proto.ModeWrite)
}

func (x *txn) read(t proto.TableID, k proto.Key, dst []byte, m proto.Mode) error {
	if err := x.touch(t, k, m, dst); err != nil {
		return err
	}
	v, ok := x.s.Records[Place{t, k}]
	if !ok {
		return proto.ErrNotFound
	}
	copy(dst, v)
	return nil
}

func (x *txn) ReadMany(gets []proto.Get) error {
	for i := range gets {
		g := &gets[i]
		g.Err = x.Read(g.Table, g.Key, g.Value)
		if g.Err != nil && !errors.Is(g.Err, proto.ErrNotFound) {
			return g.Err
		}
	}
	return nil
}

func (x *txn) Scan(t proto.TableID, from, to proto.Key, each func(proto.Key, []byte) bool) error {
	spec, err := x.s.spec(t)
	if err != nil {
		return err
	}
	if !spec.Ordered {
		return fmt.Errorf("scan of table %s: %w", spec.Name, proto.ErrUnsupported)
	}
	x.s.scan(t, from, to, func(k proto.Key) bool {
		x.touched = append(x.touched, proto.Access{Table: t, Key: k, Mode: proto.ModeRead})
		return each(k, x.s.Records[Place{t, k}])
	})
	return nil
}

// keep remembers a record as it was.
func (x *txn) keep(p Place) {
	if _, ok := x.undo[p]; !ok {
		x.undo[p] = x.s.Records[p]
	}
}

func (x *txn) Write(t proto.TableID, k proto.Key, v []byte) error {
	if err := x.touch(t, k, proto.ModeWrite, v); err != nil {
		return err
	}
	p := Place{t, k}
	if _, ok := x.s.Records[p]; !ok {
		return proto.ErrNotFound
	}
	x.keep(p)
	x.s.Records[p] = append([]byte(nil), v...)
	return nil
}

func (x *txn) Insert(t proto.TableID, k proto.Key, v []byte) error {
	if err := x.touch(t, k, proto.ModeInsert, v); err != nil {
		return err
	}
	p := Place{t, k}
	if _, ok := x.s.Records[p]; ok {
		return proto.ErrExists
	}
	x.keep(p)
	return x.s.insert(t, k, v)
}

func (x *txn) Delete(t proto.TableID, k proto.Key) error {
	if err := x.touch(t, k, proto.ModeDelete, nil); err != nil {
		return err
	}
	p := Place{t, k}
	if _, ok := x.s.Records[p]; !ok {
		return proto.ErrNotFound
	}
	x.keep(p)
	delete(x.s.Records, p)
	x.s.held[t][x.s.Workload.Placement().Locate(t, k).Primary]--
	return nil
}

// rollBack takes everything back.
func (x *txn) rollBack() {
	for p, v := range x.undo {
		home := x.s.Workload.Placement().Locate(p.Table, p.Key).Primary
		_, is := x.s.Records[p]
		switch {
		case v == nil && is:
			delete(x.s.Records, p)
			x.s.held[p.Table][home]--
		case v != nil:
			if !is {
				x.s.held[p.Table][home]++
			}
			x.s.Records[p] = v
		}
	}
}
