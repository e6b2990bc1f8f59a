// Package mix runs several workloads on one cluster, each on cores of its own (HADES §VIII-E, Table V).
//
// Each part has its tables, its records on all nodes, and its share of every node's cores; parts meet in caches, NICs and
// links alone. Tables are numbered through, in the order of the parts. The mix has one type of transaction for each part,
// so that outcomes are counted by part. Sums of the parts are added.
//
// # What it does not do
//
// Functions are not shipped, and chains run as single transactions. Clients are told apart by the order in which they are
// made, which is that of the workers of a node, with all fibers of each: package load makes them so.
//
// # Concurrency
//
// NewClient may be called for one node by one goroutine at a time; the rest is as package workload says.
package mix

import (
	"errors"
	"fmt"
	"math/rand/v2"

	"drtmd/proto"
	"drtmd/proto/workload"
)

// ErrOptions is wrapped by everything that New refuses.
var ErrOptions = errors.New("mix: these parts do not fit")

// Options of New.
type Options struct {
	Parts  []workload.Workload
	Nodes  int
	Cores  int // workers of a node, as many as parts or more
	Fibers int // clients of a core
}

// Mix is the workload.
type Mix struct {
	o      Options
	tables []proto.TableSpec
	first  []proto.TableID // number before the first table, by part
	part   []int           // by table, from 1
	places placement
	made   []int // clients, by node
}

// New checks the options and makes the workload.
func New(o Options) (*Mix, error) {
	switch {
	case len(o.Parts) == 0 || len(o.Parts) >= workload.MaxKinds:
		return nil, fmt.Errorf("%w: %d workloads; take 1 to %d", ErrOptions, len(o.Parts), workload.MaxKinds-1)
	case o.Cores < len(o.Parts):
		return nil, fmt.Errorf("%w: %d cores of a node for %d workloads, of which each needs one", ErrOptions, o.Cores,
			len(o.Parts))
	case o.Nodes < 1 || o.Fibers < 1:
		return nil, fmt.Errorf("%w: %d nodes, %d clients of a core; both must be positive", ErrOptions, o.Nodes, o.Fibers)
	}
	m := &Mix{o: o, part: []int{0}, made: make([]int, o.Nodes)}
	for i, w := range o.Parts {
		m.first = append(m.first, proto.TableID(len(m.tables)))
		for _, s := range w.Tables() {
			s.ID = proto.TableID(len(m.tables) + 1)
			s.Name = fmt.Sprintf("%d-%s", i+1, s.Name)
			m.tables = append(m.tables, s)
			m.part = append(m.part, i)
		}
		m.places.parts = append(m.places.parts, w.Placement())
	}
	m.places.mix = m
	return m, nil
}

// Name is "mix".
func (m *Mix) Name() string { return "mix" }

// Tables are those of all parts.
func (m *Mix) Tables() []proto.TableSpec { return m.tables }

// Kinds are the parts.
func (m *Mix) Kinds() (names []string) {
	for i, w := range m.o.Parts {
		names = append(names, fmt.Sprintf("%d-%s", i+1, w.Name()))
	}
	return names
}

// placement asks that of the part that a table is of.
type placement struct {
	mix   *Mix
	parts []proto.Placement
}

func (p *placement) Locate(t proto.TableID, k proto.Key) proto.Location {
	i := p.mix.part[t]
	return p.parts[i].Locate(t-p.mix.first[i], k)
}

// Placement says where records live.
func (m *Mix) Placement() proto.Placement { return &m.places }

// Load gives a node the records of all parts.
func (m *Mix) Load(node proto.NodeID, put func(t proto.TableID, k proto.Key, value []byte) error) error {
	for i, w := range m.o.Parts {
		err := w.Load(node, func(t proto.TableID, k proto.Key, v []byte) error { return put(t+m.first[i], k, v) })
		if err != nil {
			return err
		}
	}
	return nil
}

// MostWritten implements workload.Bounded by the parts that do: a lower bound, if others do not.
func (m *Mix) MostWritten(chopped bool) (records, valueBytes int) {
	for _, w := range m.o.Parts {
		if b, ok := w.(workload.Bounded); ok {
			r, v := b.MostWritten(chopped)
			records, valueBytes = max(records, r), max(valueBytes, v)
		}
	}
	return records, valueBytes
}

// Sums are those of all parts, added.
func (m *Mix) Sums() []string {
	n := 0
	for _, w := range m.o.Parts {
		n = max(n, len(w.Sums()))
	}
	return []string{"first sums of the parts", "second sums of the parts"}[:n]
}

// Check checks all parts.
func (m *Mix) Check(node proto.NodeID, c workload.Contents) (first, last workload.Quantities, err error) {
	for i, w := range m.o.Parts {
		a, b, err := w.Check(node, &contents{c, m.first[i]})
		if err != nil {
			return first, last, fmt.Errorf("part %d, %s: %w", i+1, w.Name(), err)
		}
		first, last = first.Plus(a), last.Plus(b)
	}
	return first, last, nil
}

// contents are those of a part.
type contents struct {
	all   workload.Contents
	first proto.TableID
}

func (c *contents) Read(t proto.TableID, k proto.Key, dst []byte) error {
	return c.all.Read(t+c.first, k, dst)
}

func (c *contents) Each(t proto.TableID, visit func(proto.Key, []byte)) { c.all.Each(t+c.first, visit) }

func (c *contents) Scan(t proto.TableID, visit func(proto.Key, []byte) bool) error {
	return c.all.Scan(t+c.first, visit)
}

// NewClient makes a client of the part that the node's next core runs.
func (m *Mix) NewClient(home proto.NodeID, r *rand.Rand) workload.Client {
	core := m.made[home] / m.o.Fibers % m.o.Cores
	m.made[home]++
	i := core * len(m.o.Parts) / m.o.Cores
	return newClient(m, i, m.o.Parts[i].NewClient(home, r))
}
