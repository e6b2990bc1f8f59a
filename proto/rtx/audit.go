package rtx

import (
	"encoding/binary"
	"fmt"
	"slices"
)

// Audit checks memory at rest, when no transaction runs and no lock of a dead client is left: every block is the
// value of one object, or in one slot, or was not given out; every object that was ever allocated is reached by
// the program, or in one list. reached are the allocated objects that the program reaches, without the roots.
func Audit(memory []byte, reached []Ptr) error { return AuditRecords(memory, reached, nil) }

// AuditRecords is Audit of memory with indexes that have records: blocks that no object has.
func AuditRecords(memory []byte, reached []Ptr, records []uint64) error {
	return AuditNodes([][]byte{memory}, reached, records)
}

// AuditNodes is AuditRecords of several memory nodes, in the order of their numbers.
func AuditNodes(nodes [][]byte, reached []Ptr, records []uint64) error {
	_, err := AuditSurvivors(nodes, reached, records)
	return err
}

// AuditSurvivors is AuditNodes when some nodes are lost, whose memory is nil. It names what it could not audit for that
// reason: what the lost nodes had, and what only they could have told of the others.
func AuditSurvivors(nodes [][]byte, reached []Ptr, records []uint64) (unaudited []string, err error) {
	a, err := newAudit(nodes)
	if err != nil {
		return nil, err
	}
	for _, d := range records {
		if a.lost(int(offsetOf(d))) {
			continue
		}
		if err := a.claim(d, "an index"); err != nil {
			return nil, err
		}
	}
	for _, check := range []func() error{a.objects, a.slots, a.chunks, func() error { return a.lists(reached) }} {
		if err := check(); err != nil {
			return nil, err
		}
	}
	return a.unaudited(), nil
}

// newAudit checks that memories belong together. All but those of lost nodes are there.
func newAudit(nodes [][]byte) (*audit, error) {
	var first *layout
	for i, memory := range nodes {
		if memory == nil {
			continue
		}
		l, err := decode(memory[:min(len(memory), headerBytes)], len(memory))
		if err != nil {
			return nil, err
		}
		if l.Node != i || l.Nodes != len(nodes) || first != nil && !l.likens(first) {
			return nil, fmt.Errorf("%w: memory node %d of %d in place %d of %d", ErrLayout, l.Node+1, l.Nodes, i+1, len(nodes))
		}
		if first == nil {
			first = l
		}
	}
	if first == nil {
		return nil, fmt.Errorf("%w: all %d memory nodes are lost", ErrNodeLost, len(nodes))
	}
	return &audit{l: first, nodes: nodes, owner: map[uint64]string{}, pending: map[uint64]bool{}}, nil
}

// lost reports whether a place is on a node that is lost.
func (a *audit) lost(place int) bool { return a.nodes[PlaceNode(place)] == nil }

// anyLost reports whether any node is.
func (a *audit) anyLost() bool {
	return slices.ContainsFunc(a.nodes, func(memory []byte) bool { return memory == nil })
}

// unaudited names what the loss of nodes has hidden.
func (a *audit) unaudited() (all []string) {
	for node, memory := range a.nodes {
		if memory != nil {
			continue
		}
		owners := 0
		for owner := range a.l.Owners {
			if PlaceNode(a.l.ownerAt(owner)) == node {
				owners++
			}
		}
		all = append(all, fmt.Sprintf("memory node %d: its %d objects, its blocks, and logs, slots and free objects of %d owners", node+1,
			a.l.metaCount(), owners))
	}
	if len(all) > 0 {
		all = append(all, "the other nodes: locks that need a lost node, and blocks and objects that only a lost node may name")
	}
	return all
}

// AllObjects are the objects of all memory nodes of a shape, internal ones included.
func AllObjects(s Shape) (all []Ptr) {
	for node := range max(s.Nodes, 1) {
		for i := range s.metaCount() {
			all = append(all, ptrTo(node, i))
		}
	}
	return all
}

// audit is what an Audit has found. It is for tests and tools: it allocates.
type audit struct {
	l     *layout
	nodes [][]byte
	owner map[uint64]string // by place of a block: whose it is. Looked up only
	// pending are blocks of objects that are locked, because of a lost node: they are still in the slot, too, that they
	// came from, until the transaction ends.
	pending map[uint64]bool
}

func (a *audit) at(place int) []byte { return a.nodes[PlaceNode(place)][PlaceOffset(place):] }

func (a *audit) word(place int) uint64 { return binary.LittleEndian.Uint64(a.at(place)) }

// claim notes whose a block is.
func (a *audit) claim(d uint64, who string) error {
	if a.l.classOf(d) < 0 {
		return fmt.Errorf("%w: %s has data pointer %#x", ErrCorrupt, who, d)
	}
	if other, ok := a.owner[offsetOf(d)]; ok {
		return fmt.Errorf("the block at %#x belongs to %s and to %s", offsetOf(d), other, who)
	}
	a.owner[offsetOf(d)] = who
	return nil
}

func (a *audit) objects() error {
	for i := range a.l.Nodes * a.l.metaCount() {
		p := ptrTo(i/a.l.metaCount(), i%a.l.metaCount())
		at := a.l.metaAt(p)
		if a.lost(at) {
			continue
		}
		if w := a.word(at); locked(w) && !a.anyLost() {
			return fmt.Errorf("object %d is locked by owner %d, without log: %v, lease %d", p, ownerOf(w), noLog(w),
				leaseOf(w))
		}
		if d := a.word(at + 8); !isNil(d) && !a.lost(int(offsetOf(d))) {
			if err := a.claim(d, fmt.Sprintf("object %d", p)); err != nil {
				return err
			}
			a.pending[offsetOf(d)] = locked(a.word(at))
		}
	}
	return nil
}

func (a *audit) slots() error {
	for i := range a.l.Owners * a.l.Slots {
		if a.lost(a.l.slotAt(i)) {
			continue
		}
		d := a.word(a.l.slotAt(i))
		if isNil(d) || a.lost(int(offsetOf(d))) || a.pending[offsetOf(d)] {
			continue
		}
		if err := a.claim(d, fmt.Sprintf("slot %d of owner %d", i%a.l.Slots, i/a.l.Slots)); err != nil {
			return err
		}
		if a.l.classOf(d) != a.l.slotClass(i%a.l.Slots) {
			return fmt.Errorf("%w: slot %d of owner %d has a block of class %d", ErrCorrupt, i%a.l.Slots, i/a.l.Slots,
				a.l.classOf(d))
		}
	}
	return nil
}

// chunks finds blocks that were given out and are nobody's, or the other way round.
func (a *audit) chunks() error {
	for class, k := range a.l.Classes {
		for i := range k.Blocks * a.l.Nodes {
			if a.lost(a.l.chunkAt(class, i/ChunkBlocks)) {
				continue
			}
			w := a.word(a.l.chunkAt(class, i/ChunkBlocks))
			stored, given := 0, 0
			if w != 0 {
				stored, given = chunkStored(w), chunkGiven(w)
			}
			who, used := a.owner[a.l.blockOf(class, i/ChunkBlocks, i%ChunkBlocks)]
			switch n := i % ChunkBlocks; {
			case n < stored && !used && !a.anyLost():
				return fmt.Errorf("block %d of class %d is leaked: no object has it and no slot", i, class)
			case n >= given && used:
				return fmt.Errorf("block %d of class %d was not given out, and belongs to %s", i, class, who)
			}
		}
	}
	return nil
}

// lists finds objects that are nobody's.
func (a *audit) lists(reached []Ptr) error {
	if a.anyLost() {
		return nil // lists lead over all nodes
	}
	l, first := a.l, a.l.internal()+a.l.Roots
	used := make([]int, l.Nodes) // ends of the objects that were ever used
	for node := range used {
		used[node] = first
		if b := a.value(poolPtr(node)); b != nil {
			used[node] = max(first, indexOf(Ptr(binary.LittleEndian.Uint64(b))))
		}
	}
	where := map[Ptr]string{}
	claim := func(p Ptr, who string) error {
		if !l.has(p) || indexOf(p) < first || indexOf(p) >= used[nodeOf(p)] {
			return fmt.Errorf("%w: %s has object %d, and those of the nodes end at %v", ErrCorrupt, who, p, used)
		}
		if other, ok := where[p]; ok {
			return fmt.Errorf("object %d belongs to %s and to %s", p, other, who)
		}
		where[p] = who
		return nil
	}
	for _, p := range reached {
		if err := claim(p, "the program"); err != nil {
			return err
		}
	}
	for owner := range l.Owners {
		b := a.value(l.listPtr(owner))
		if b == nil {
			continue
		}
		who := fmt.Sprintf("the list of owner %d", owner)
		fresh := len(l.Classes) * 8
		for p := binary.LittleEndian.Uint64(b[fresh:]); p < binary.LittleEndian.Uint64(b[fresh+8:]); p++ {
			if err := claim(Ptr(p), who); err != nil {
				return err
			}
		}
		for class := range l.Classes {
			for p := Ptr(binary.LittleEndian.Uint64(b[8*class:])); p != 0; {
				if err := claim(p, who); err != nil {
					return err
				}
				v := a.value(p)
				if v == nil {
					return fmt.Errorf("%w: free object %d has no block", ErrCorrupt, p)
				}
				p = Ptr(binary.LittleEndian.Uint64(v))
			}
		}
	}
	for node := range used {
		for i := first; i < used[node]; i++ {
			if _, ok := where[ptrTo(node, i)]; !ok {
				return fmt.Errorf("object %d is leaked: the program does not reach it, and it is in no list", ptrTo(node, i))
			}
		}
	}
	return nil
}

// value is that of an object; nil: it has none.
func (a *audit) value(p Ptr) []byte {
	d := a.word(a.l.metaAt(p) + 8)
	class := a.l.classOf(d)
	if isNil(d) || class < 0 {
		return nil
	}
	return a.at(int(offsetOf(d)))[blockHeader:][:a.l.Classes[class].Payload()]
}
