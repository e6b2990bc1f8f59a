// Package chained is a workload of small transactions that protocols may run in pieces (DrTM §4): it declares them
// to package chop, and runs the pieces that come out. A deliberate bug of the analysis so runs a chopping that is not
// serializable.
//
// # Tables
//
// All are of numbers of eight bytes, a few on each node: a, b, d and e, which transactions change; received and sent,
// to which they add; and c. Keys are node 16 bits | number 48 bits.
//
// # Transactions, in percent of the mix
//
//	transfer 30  moves an amount from a to b, which may be on another node, and adds it to received
//	reserve 15   adds to received, and changes e; the user may abort it then
//	post 20      changes d and adds to sent
//	tally 15     reads d and sent, and changes c
//	audit 20     reads a record of a, b, d, received and sent
//
// Of transfer, the changes of a and b are one piece and the addition another one. A post is one piece, because a tally
// that sees the two halves of it would be on an SC-cycle; if reads commuted with additions it were two. Of reserve,
// the abort comes first.
//
// # With deferred pieces
//
// Options.Deferred adds three tables, filed, owed and billed, and has other transactions, all on their own node:
//
//	ship 45      changes filed, and adds to owed; the addition is deferred to a barrier (DrTM §4.2)
//	bill 35      moves what is owed to billed: it subscribes to what is shipped
//	inspect 20   reads a record of filed, owed and billed
//
// Two ships come in one order by filed. A bill between their additions to owed must not see the other one.
//
// # What is checked
//
// What is in a and b together stays, and received grows by what committed transactions have added, as does what is in
// owed and billed together.
package chained

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"

	"drtmd/proto"
	"drtmd/proto/chop"
	"drtmd/proto/workload"
	"drtmd/verbs/fiber"
)

// Tables.
const (
	tableA proto.TableID = iota + 1
	tableB
	tableC
	tableD
	tableE
	tableReceived
	tableSent
	tableFiled // from here on with deferred pieces only
	tableOwed
	tableBilled
	tableEnd
)

var tableNames = [tableEnd - 1]string{"a", "b", "c", "d", "e", "received", "sent", "filed", "owed", "billed"}

// Kind is the type of a transaction: Decl.Kind.
type Kind uint8

// Kinds.
const (
	Transfer Kind = iota + 1
	Reserve
	Post
	Tally
	Audit
	Ship // from here on with deferred pieces only
	Bill
	Inspect
	kindEnd
)

func (k Kind) String() string {
	return [...]string{"transfer", "reserve", "post", "tally", "audit", "ship", "bill", "inspect"}[k-1]
}

var (
	mix         = []int{30, 15, 20, 15, 20}
	deferredMix = []int{0, 0, 0, 0, 0, 45, 35, 20}
)

func (k Kind) readOnly() bool { return k == Audit || k == Inspect }

// Options of New.
type Options struct {
	Nodes    int
	Keys     int     // of each table on each node
	Remote   float64 // probability that the b of a transfer is on another node
	RollBack float64 // probability that the user aborts a reserve
	// Deferred adds transactions with deferred pieces, and those that see them, in place of the others.
	Deferred bool
	// Mutation of the analysis.
	Mutation chop.Mutation
}

// Chained is the workload.
type Chained struct {
	o      Options
	mix    workload.Mix
	kinds  Kind          // the first that it does not have
	tables proto.TableID // likewise
	pieces [kindEnd][][]operation
	at     [kindEnd]proto.AtBarrier
}

// operation is one access of a transaction.
type operation struct {
	mode   chop.Mode
	table  proto.TableID
	sign   int64 // of the amount that a Write or an Add changes the number by
	aborts bool
}

// operations of the transactions, by the names that their declaration has.
var operations = [kindEnd]map[string]operation{
	Transfer: {"A": {chop.Write, tableA, -1, false}, "B": {chop.Write, tableB, 1, false},
		"S": {chop.Add, tableReceived, 1, false}},
	Reserve: {"L": {chop.Add, tableReceived, 1, false}, "Y": {chop.Write, tableE, 1, true}},
	Post:    {"P": {chop.Write, tableD, 1, false}, "Q": {chop.Add, tableSent, 1, false}},
	Tally: {"R": {chop.Read, tableD, 0, false}, "T": {chop.Read, tableSent, 0, false},
		"W": {chop.Write, tableC, 1, false}},
	Audit: {"A": {chop.Read, tableA, 0, false}, "B": {chop.Read, tableB, 0, false}, "D": {chop.Read, tableD, 0, false},
		"S": {chop.Read, tableReceived, 0, false}, "T": {chop.Read, tableSent, 0, false}},
	Ship: {"F": {chop.Write, tableFiled, 1, false}, "C": {chop.Add, tableOwed, 1, false}},
	Bill: {"O": {chop.Write, tableOwed, 0, false}, "B": {chop.Write, tableBilled, 0, false}},
	Inspect: {"F": {chop.Read, tableFiled, 0, false}, "O": {chop.Read, tableOwed, 0, false},
		"B": {chop.Read, tableBilled, 0, false}},
}

// order of the operations in the whole program.
var order = [kindEnd][]string{Transfer: {"A", "B", "S"}, Reserve: {"L", "Y"}, Post: {"P", "Q"}, Tally: {"R", "T", "W"},
	Audit: {"A", "B", "D", "S", "T"}, Ship: {"F", "C"}, Bill: {"O", "B"}, Inspect: {"F", "O", "B"}}

// kindsOf is the first kind that a workload does not have.
func kindsOf(deferred bool) Kind {
	if deferred {
		return kindEnd
	}
	return Ship
}

// Pieces is the declaration.
func Pieces(deferred bool) *chop.Workload {
	w := &chop.Workload{}
	if deferred {
		w.Deferrals = []chop.Deferral{{Publisher: Ship.String(), Op: "C", Subscribers: []string{Bill.String(),
			Inspect.String()}}}
	}
	for k := Transfer; k < kindsOf(deferred); k++ {
		t := chop.Transaction{Name: k.String(), Short: k.String(), ReadOnly: k.readOnly()}
		for _, name := range order[k] {
			o := operations[k][name]
			t.Ops = append(t.Ops, chop.Op{Name: name, Aborts: o.aborts,
				Accesses: []chop.Access{{Of: tableNames[o.table-1], Mode: o.mode}}})
		}
		w.Transactions = append(w.Transactions, t)
	}
	return w
}

// New makes the workload.
func New(o Options) (*Chained, error) {
	if o.Nodes < 1 || o.Keys < 1 || o.Nodes == 1 && o.Remote > 0 {
		return nil, fmt.Errorf("chained: %d nodes with %d keys each, and %v of them elsewhere", o.Nodes, o.Keys, o.Remote)
	}
	w := &Chained{o: o, kinds: kindsOf(o.Deferred), tables: tableFiled}
	shares := mix
	if o.Deferred {
		w.tables, shares = tableEnd, deferredMix
	}
	var err error
	if w.mix, err = workload.NewMix(shares); err != nil {
		return nil, err
	}
	r, err := chop.Analyse(Pieces(o.Deferred), chop.Options{Optimised: true, Mutation: o.Mutation})
	if err != nil {
		return nil, err
	}
	for k := Transfer; k < w.kinds; k++ {
		c := r.Find(k.String())
		switch {
		case c.Pieces[len(c.Pieces)-1].Deferred:
			w.at[k] = proto.Publishes
		case len(c.Subscribes) > 0 && !k.readOnly(): // who only reads waits for chains
			w.at[k] = proto.Subscribes
		}
		for _, p := range c.Pieces {
			var piece []operation
			for _, name := range p.Ops {
				piece = append(piece, operations[k][name])
			}
			w.pieces[k] = append(w.pieces[k], piece)
		}
	}
	return w, nil
}

// Name is "chained".
func (w *Chained) Name() string { return "chained" }

// Kinds names the transactions.
func (w *Chained) Kinds() (names []string) {
	for k := Transfer; k < w.kinds; k++ {
		names = append(names, k.String())
	}
	return names
}

// Tables are those of the package comment.
func (w *Chained) Tables() (specs []proto.TableSpec) {
	for i, name := range tableNames[:w.tables-1] {
		specs = append(specs, proto.TableSpec{ID: proto.TableID(i + 1), Name: name, ValueBytes: 8, Capacity: w.o.Keys})
	}
	return specs
}

const nodeShift = 48

func keyOf(n proto.NodeID, i int) proto.Key { return proto.Key(n)<<nodeShift | proto.Key(i) }

type placement struct{}

func (placement) Locate(_ proto.TableID, k proto.Key) proto.Location {
	return proto.Location{Primary: proto.NodeID(k >> nodeShift)}
}

// Placement has each record on the node in its key.
func (w *Chained) Placement() proto.Placement { return placement{} }

// Load has all numbers 0.
func (w *Chained) Load(node proto.NodeID, put func(t proto.TableID, k proto.Key, value []byte) error) error {
	var zero [8]byte
	for t := tableA; t < w.tables; t++ {
		for i := range w.o.Keys {
			if err := put(t, keyOf(node, i), zero[:]); err != nil {
				return err
			}
		}
	}
	return nil
}

// Sums are those of the package comment.
func (w *Chained) Sums() []string {
	if w.o.Deferred {
		return []string{"what is in a and b", "received, owed and billed"}
	}
	return []string{"what is in a and b", "received"}
}

// Check adds them up.
func (w *Chained) Check(node proto.NodeID, c workload.Contents) (initial, final workload.Quantities, err error) {
	var b [8]byte
	for i, tables := range [...][]proto.TableID{{tableA, tableB}, {tableReceived, tableOwed, tableBilled}} {
		for _, t := range tables {
			if t >= w.tables {
				continue
			}
			for k := range w.o.Keys {
				if err := c.Read(t, keyOf(node, k), b[:]); err != nil {
					return initial, final, err
				}
				final[i] += int64(binary.LittleEndian.Uint64(b[:]))
			}
		}
	}
	return initial, final, nil
}

// client draws the transactions of one fiber.
type client struct {
	w    *Chained
	home proto.NodeID
	rand *rand.Rand
	tx   transaction
	open bool
	did  workload.Ledger
}

// NewClient makes a client.
func (w *Chained) NewClient(home proto.NodeID, r *rand.Rand) workload.Client {
	c := &client{w: w, home: home, rand: r}
	c.tx.w = w
	return c
}

// transaction is a Chain with its parameters.
type transaction struct {
	w        *Chained
	kind     Kind
	decl     proto.Decl
	keys     [tableEnd]proto.Key // by table
	amount   int64
	rollBack bool
	groups   [2]uint32
	value    [8]byte
	due      int64 // what a bill has found owed
}

// Next draws a transaction. Its records have one number, but for the b of a transfer to another node.
func (c *client) Next() (*proto.Decl, proto.Program) {
	t, r := &c.tx, c.rand
	t.kind = Kind(c.w.mix.Draw(r) + 1)
	i := r.IntN(c.w.o.Keys)
	for table := range t.keys {
		t.keys[table] = keyOf(c.home, i)
	}
	t.keys[tableFiled] = keyOf(c.home, 0) // by which all ships come in one order
	if t.kind == Transfer && c.w.o.Nodes > 1 && r.Float64() < c.w.o.Remote {
		n := (int(c.home) + 1 + r.IntN(c.w.o.Nodes-1)) % c.w.o.Nodes
		t.keys[tableB] = keyOf(proto.NodeID(n), r.IntN(c.w.o.Keys))
	}
	t.amount, t.rollBack = 1+r.Int64N(100), t.kind == Reserve && r.Float64() < c.w.o.RollBack
	t.decl.Kind, t.decl.ReadOnly, t.decl.AtBarrier = uint8(t.kind), t.kind.readOnly(), c.w.at[t.kind]
	t.group()
	t.decl.Accesses = t.decl.Accesses[:0]
	for p := range c.w.pieces[t.kind] {
		t.declare(p)
	}
	c.open = true
	return &t.decl, t
}

// group sets the groups of records in which readers wait for chains: the number of most of its own, and that of what is
// filed.
func (t *transaction) group() {
	number := func(k proto.Key) uint32 { return uint32(k & (1<<nodeShift - 1)) }
	t.groups = [2]uint32{number(t.keys[tableA]), number(t.keys[tableFiled])}
	t.decl.Groups = t.groups[:]
	if t.kind < Ship || t.groups[0] == t.groups[1] {
		t.decl.Groups = t.groups[:1]
	}
}

func (t *transaction) declare(piece int) {
	for _, o := range t.w.pieces[t.kind][piece] {
		m := proto.ModeRead
		if o.mode != chop.Read {
			m = proto.ModeWrite
		}
		t.decl.Accesses = append(t.decl.Accesses, proto.Access{Table: o.table, Mode: m, Key: t.keys[o.table]})
	}
}

// Execute runs all pieces.
func (t *transaction) Execute(tx proto.Txn) error {
	for p := range t.w.pieces[t.kind] {
		if err := t.ExecutePiece(tx, p); err != nil {
			return err
		}
	}
	return nil
}

// Pieces implements proto.Chain.
func (t *transaction) Pieces() int { return len(t.w.pieces[t.kind]) }

// PlanPiece implements proto.Chain.
func (t *transaction) PlanPiece(_ *fiber.Fiber, _ proto.Peeker, piece int, d *proto.Decl) error {
	t.decl.Accesses = t.decl.Accesses[:0]
	t.declare(piece)
	d.Accesses, d.Groups = t.decl.Accesses, t.decl.Groups
	return nil
}

// ExecutePiece implements proto.Chain.
func (t *transaction) ExecutePiece(tx proto.Txn, piece int) error {
	for _, o := range t.w.pieces[t.kind][piece] {
		if err := t.operate(tx, o); err != nil {
			return err
		}
	}
	return nil
}

func (t *transaction) operate(tx proto.Txn, o operation) error {
	k := t.keys[o.table]
	switch o.mode {
	case chop.Read:
		return tx.Read(o.table, k, t.value[:])
	case chop.Add:
		return proto.Add(tx, o.table, k, o.sign*t.amount)
	}
	if err := tx.GetForUpdate(o.table, k, t.value[:]); err != nil {
		return err
	}
	if o.aborts && t.rollBack {
		return proto.ErrRollback
	}
	n := int64(binary.LittleEndian.Uint64(t.value[:])) + o.sign*t.amount
	switch {
	case t.kind == Bill && o.table == tableOwed:
		t.due, n = n, 0
	case t.kind == Bill:
		n += t.due
	}
	binary.LittleEndian.PutUint64(t.value[:], uint64(n))
	return tx.Write(o.table, k, t.value[:])
}

// AppendPieces implements proto.Chain: amount 8 | key of each table 8.
func (t *transaction) AppendPieces(b []byte, _ int) []byte {
	b = binary.LittleEndian.AppendUint64(b, uint64(t.amount))
	for _, k := range t.keys[1:t.w.tables] {
		b = binary.LittleEndian.AppendUint64(b, uint64(k))
	}
	return b
}

// Resume implements proto.Resumer.
func (w *Chained) Resume(kind uint8, from int, parameters []byte) (proto.Chain, error) {
	if kind == 0 || Kind(kind) >= w.kinds || from < 1 || from >= len(w.pieces[kind]) ||
		len(parameters) != 8*int(w.tables) {
		return nil, fmt.Errorf("chained: %d bytes for piece %d of kind %d", len(parameters), from, kind)
	}
	t := &transaction{w: w, kind: Kind(kind), amount: int64(binary.LittleEndian.Uint64(parameters))}
	for i := range t.keys[1:w.tables] {
		t.keys[1+i] = proto.Key(binary.LittleEndian.Uint64(parameters[8*(1+i):]))
	}
	t.decl.Kind = kind
	t.group()
	return t, nil
}

// changed is what the transaction does to the sums.
func (t *transaction) changed() (q workload.Quantities) {
	if t.kind == Transfer || t.kind == Reserve || t.kind == Ship {
		q[1] = t.amount
	}
	return q
}

// Done notes what the transaction did.
func (c *client) Done(o proto.Outcome) {
	c.open = false
	c.did.Settle(o, c.tx.changed())
}

// AddTo adds what the client's transactions did.
func (c *client) AddTo(l *workload.Ledger) {
	l.Add(&c.did)
	if c.open {
		l.AddUnknown(c.tx.changed())
	}
}
