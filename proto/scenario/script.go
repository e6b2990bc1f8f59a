package scenario

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"

	"drtmd/proto"
	"drtmd/proto/workload"
	"drtmd/store/hopscotch"
	"drtmd/store/layout"
)

// A script is a workload of a few written transactions of each node, on a few records: what small worlds run. A
// transaction is a list of operations, each a letter and a record: r reads, w writes without a look, u reads and
// writes, i inserts, d deletes; an x at its end rolls it back. A and B are there, on nodes 0 and 1, and so is
// D on node 1 if it is named; C is of node 0 and is not there. K is there and X is not, on node 1: see crowd. Z is of node 0,
// is not there, and has A's home in a hopscotch table.
type script struct {
	nodes        int
	transactions []string // of node 0, 1, ...; see of. Fewer than nodes: others run none
	// endless clients run what their node's workers have, in turns, until the run ends.
	endless bool
	atHome  bool // the table is accessed by its own node only
}

const (
	scriptTable = proto.TableID(1)
	scriptBytes = 8
	scriptShift = 48
	// scriptRecords have room in a table.
	scriptRecords = 24
)

// scripts are those that small worlds run, by name.
var scripts = []struct {
	name, doc    string
	transactions []string
}{
	{"cross", "two that write both records", []string{"uA uB", "uB uA"}},
	{"skew", "each reads what the other writes", []string{"rA wB", "rB wA"}},
	{"look", "one writes both records, the other reads them", []string{"uA uB", "rB rA"}},
	{"ones", "one writes a record that two others read alone", []string{"uA", "rA", "rA"}},
	{"back", "one writes a record of another node that all hold; it and a third read that alone",
		[]string{"rB", "rB", "uB"}},
	{"own", "one writes a record that its node backs up and then reads it alone, as another does", []string{"uB;rB|rB", "rB"}},
	{"chain", "each of three reads what the next one writes", []string{"rA wB", "rB uA", "rA rB"}},
	{"absent", "two look for a record in vain and insert another, or insert it", []string{"iC", "rC wB", "rB rC"}},
	{"gone", "one deletes a record that the others read and write", []string{"dA wB", "rB uA", "rA rB"}},
	{"far", "two write a record of a third node, which runs nothing", []string{"", "uA", "uA"}},
	{moved, "one reads a record that is moved, and then written, and writes what the other reads; another has its place",
		[]string{"", "rA;iX;uK rA", "rK wA"}},
	{"third", "a third node writes both records, one reads them", []string{"rB rA", "", "uA uB"}},
	{"rolls", "a third node writes both records, one reads them and rolls back", []string{"rB rA x", "", "uA uB"}},
	{"lag", "one writes a record of a third node that another one deletes", []string{"", "uA", "dA"}},
	{"turns", "one inserts a record and reads another one then; a third node looks for the first and writes the second",
		[]string{"iC;rB", "", "rC wB"}},
	{"lacks", "a third node inserts a record and writes another one, one looks for both", []string{"rC rB", "", "iC uB"}},
	{"comes", "a record comes and goes while another node reads it twice", []string{"iC;dC;iC", "rC wB", "rC"}},
	{"alone", "one writes a record that a third node reads, which writes another one and reads that alone by another worker",
		[]string{"uA", "", "rA wB|rB"}},
	{"swap", "each reads the other's record and writes its own", []string{"rB wA", "rA wB"}},
	{"beside", "a worker writes both records, another one of its node reads them", []string{"", "", "rB rA|uA uB"}},
	{"torn", "one writes a record that a third node writes, too, which reads another one", []string{"", "uB", "rA wB"}},
	{"tears", "one writes a record that a third node writes with another one", []string{"uA", "", "uA uB"}},
	{"pair", "one inserts a record beside another one; a third node reads both", []string{"iC", "", "rA rC"}},
	{"home", "two workers of a node write its record and read it, another node reads it and writes its own",
		[]string{"uA;rA|uA", "rA uB"}},
	{"moves", "two workers of a node delete and insert its record, which another node writes", []string{"dA|rA;iA", "uA"}},
	{"passes", "a record comes and goes with two of its writer's node; a third node finds it absent, sees the first, not the second",
		[]string{"", "iC uD;dC uB", "|rC rD rB"}},
	{"lowered", "the same behind a write of one of the two, which the third node's backup must not give before it is decided",
		[]string{"", "uD;iC uD;uA;dC uB", "|rC rD rB"}},
	{"behind", "one writes two records, one behind the other; two read both", []string{"uA;uB", "rA rB", "rB rA"}},
	{"outlives", "a third node writes both records, another one writes one", []string{"uB", "", "uA uB"}},
	{"heirs", "one writes both records, a third node reads one alone", []string{"uA uB", "", "rA"}},
	{"again", "a record comes and goes, and a third node inserts it", []string{"iC;dC", "", "iC"}},
	{"both", "a third node writes two records of one node, which reads both, and another node writes one of them",
		[]string{"uB", "rB rD", "uD uB"}},
	{shifted, "one inserts a record, to which another one gives way that a third node writes", []string{"", "iX", "uK uA"}},
	{"answers", "one writes two records one behind the other, another one writes the second", []string{"uB", "", "uD;uB"}},
	{"leased", "one reads a record that is written then, and writes what a worker beside it reads", []string{"uA", "rA uB|rB"}},
	{"joined", "the same with two records, of which one is written and another node reads one, too",
		[]string{"rB rD uA|rA", "uB", "rB;rD;rD"}},
	{"hints", "one reads a record and writes it then with another one, a third node reads both",
		[]string{"", "rA;uA uB", "rA rB"}},
	{"tickets", "two workers of a node write a record of another one, as a third node does", []string{"", "uA|uA", "uA"}},
	{"rereads", "one reads a record and writes it then, as a third node does", []string{"", "rA;uA", "uA"}},
	{"taken", "a record goes, and another one comes into its place; a third node reads the first twice",
		[]string{"dA;rB;iC", "", "rA;rA"}},
	{"returned", "a record goes, comes back into its place, and is written; a third node reads it and writes it then",
		[]string{"dA;rB;iA|uA", "", "rA;uA"}},
	{"undone", "a third node writes both records, one reads one, writes the other, and rolls back",
		[]string{"rB uA x", "", "uA uB"}},
	{"vacant", "a worker looks for a record in vain and writes another one; one beside it reads that and inserts the first",
		[]string{"rC uA|rA iC"}},
	{"vain", "a worker looks for a record in vain and reads another one; one beside it inserts the first and writes that",
		[]string{"rC rA|iC uA"}},
	{"replaced", "a worker reads a record; one beside it deletes that and inserts another one", []string{"rA|dA;rB;iC"}},
	{"kept", "one looks for a record in vain twice, and writes another one then, which a worker beside it reads",
		[]string{"iC", "rC;rC uB|rB"}},
	{"coming", "two insert a record, and one reads it then", []string{"iC;rC", "", "iC"}},
	{"orphans", "one writes both records, a third node reads both twice", []string{"", "uA uB", "rA rB;rA rB"}},
	{"relics", "two records go, and one comes back into the place of the other, while a third is written; a third node reads both",
		[]string{"", "dB dD uA;iB uA", "rB rA"}},
	{"homing", "a record goes, comes back into its place, and is written with another one; a third node that knows the place " +
		"reads both", []string{"dA;uB;iA;uA uB", "", "uA;rA rB"}},
	{"holds", "one reads two records, which a third node writes, and writes another one", []string{"", "rB rD wA", "uD uB"}},
	{"ahead", "a worker reads a record that a third node writes, and writes another one; one beside it reads both",
		[]string{"", "rB uD|rB rD", "uB"}},
	{"revived", "a record goes, and a third node inserts it", []string{"dA;rB", "", "iA"}},
	{"facing", "two write both records of one node, in opposite order", []string{"", "uB uD", "uD uB"}},
	{"double", "one writes two records of its node, a third node reads both", []string{"", "uB uD", "rB rD"}},
	{evicted, "a record goes, another one takes its place, and it comes back", []string{"dA;iZ;iA"}},
	{mine, "two workers write a record that no other node accesses", []string{"uA|uA"}},
}

// mine is the script whose records no other node accesses, so that their table is kept at home; each of its transactions
// has two attempts.
const mine = "mine"

// moved, shifted and evicted are the scripts of which records change their places in hopscotch tables.
const (
	moved   = "moved"
	shifted = "shifted"
	evicted = "evicted"
)

// dimensionOf names a dimension of the protocols of whose steps a script is, slots of tables that move records or the
// fallback of leases; "": it is of all. Others can run it, too.
func dimensionOf(script string) string {
	switch script {
	case moved, shifted, evicted, "answers":
		return "slots"
	case "leased", "joined", "hints", "tickets", "rereads", "taken", "returned", "undone", "vacant", "vain", "replaced",
		"kept", "coming", "orphans", "relics", "homing", "holds", "ahead", "revived", "facing", "double",
		mine:
		return "fallback"
	}
	return ""
}

// workersOf is how many workers of a node a script needs.
func workersOf(transactions []string) int {
	most := 0
	for _, t := range transactions {
		most = max(most, strings.Count(t, "|"))
	}
	return 1 + most
}

// homes are those of the script's hopscotch table.
var homes = sync.OnceValue(func() uint64 {
	return uint64(hopscotch.For(uint16(scriptTable), "records", scriptBytes, scriptRecords).Homes)
})

// homed is the first key from k on with a home in a hopscotch table.
func homed(home uint64, k proto.Key) proto.Key {
	for layout.BucketIndex(uint64(k), homes()) != home {
		k++
	}
	return k
}

// crowd are records of node 1 whose homes in a hopscotch table are 0, 1, 2 and so on, one after the other, so that each
// stands in its home. The last one is for home 0 again: to insert it the record of home crowdMoved moves out of the
// neighbourhood, and that of home 1 into its place.
var crowd = sync.OnceValue(func() (keys []proto.Key) {
	for home := range uint64(2*layout.Neighbours - 1) {
		keys = append(keys, homed(home, 1<<scriptShift|2))
	}
	return append(keys, homed(0, keys[0]+1))
})

// crowdMoved is the first home behind the neighbourhood of home 0.
const crowdMoved = layout.Neighbours

// scriptNamed finds the transactions of a script; an unknown name is a bug.
func scriptNamed(name string) []string {
	for i := range scripts {
		if scripts[i].name == name {
			return scripts[i].transactions
		}
	}
	panic("no script is called " + name)
}

func (s *script) Name() string    { return "script" }
func (s *script) Kinds() []string { return []string{"script"} }
func (s *script) Sums() []string  { return nil }
func (s *script) Tables() []proto.TableSpec {
	return []proto.TableSpec{{ID: scriptTable, Name: "records", ValueBytes: scriptBytes, Capacity: scriptRecords,
		AtHome: s.atHome}}
}

// Locate implements proto.Placement.
func (s *script) Locate(_ proto.TableID, k proto.Key) proto.Location {
	return proto.Location{Primary: proto.NodeID(k >> scriptShift)}
}

func (s *script) Placement() proto.Placement { return s }

// keyOf is the key of a record's letter.
func keyOf(letter byte) proto.Key {
	switch letter {
	case 'A':
		return 1
	case 'B':
		return 1<<scriptShift | 1
	case 'D':
		return 1<<scriptShift | 3
	case 'K':
		return crowd()[crowdMoved]
	case 'X':
		return crowd()[len(crowd())-1]
	case 'Z':
		return homed(layout.BucketIndex(uint64(keyOf('A')), homes()), scriptRecords)
	}
	return 2
}

// Load gives each of the first two nodes its record, or the second one the crowd.
func (s *script) Load(node proto.NodeID, put func(t proto.TableID, k proto.Key, value []byte) error) error {
	if node > 1 {
		return nil
	}
	keys := []proto.Key{keyOf("AB"[node])}
	if node == 1 && s.names('D') {
		keys = append(keys, keyOf('D'))
	}
	if node == 1 && (s.names('K') || s.names('X')) {
		keys = crowd()[:len(crowd())-1]
	}
	for _, k := range keys {
		if err := put(scriptTable, k, make([]byte, scriptBytes)); err != nil {
			return err
		}
	}
	return nil
}

// names reports whether a transaction is about a record.
func (s *script) names(letter byte) bool {
	return slices.ContainsFunc(s.transactions, func(t string) bool { return strings.IndexByte(t, letter) >= 0 })
}

// Check has nothing to compare: the history does.
func (s *script) Check(proto.NodeID, workload.Contents) (initial, final workload.Quantities, err error) {
	return initial, final, nil
}

func (s *script) NewClient(home proto.NodeID, r *rand.Rand) workload.Client {
	if s.endless {
		return &scripted{all: s.of(home, 0), next: r.IntN(256), mark: r.Uint64()}
	}
	return &scripted{mark: uint64(home) + 1}
}

// of is what a worker of a node runs: the node's workers have a | between them, and the transactions that one runs one
// behind the other a ;.
func (s *script) of(node proto.NodeID, worker int) (programs []*scriptedProgram) {
	if int(node) >= min(len(s.transactions), s.nodes) {
		return nil
	}
	workers := strings.Split(s.transactions[node], "|")
	if worker >= len(workers) {
		return nil
	}
	for text := range strings.SplitSeq(workers[worker], ";") {
		if text != "" {
			programs = append(programs, newProgram(text))
		}
	}
	return programs
}

// newProgram reads a transaction.
func newProgram(text string) *scriptedProgram {
	c := &scriptedProgram{ops: strings.Fields(text), value: make([]byte, scriptBytes)}
	c.decl = proto.Decl{Kind: 1, ReadOnly: true}
	for _, op := range c.ops {
		if op == rollsBack {
			continue
		}
		a := proto.Access{Table: scriptTable, Key: keyOf(op[1]), Mode: proto.ModeWrite}
		switch op[0] {
		case 'r':
			a.Mode = proto.ModeRead
		case 'i':
			a.Mode = proto.ModeInsert
		case 'd':
			a.Mode = proto.ModeDelete
		}
		c.decl.ReadOnly = c.decl.ReadOnly && a.Mode == proto.ModeRead
		c.decl.Accesses = append(c.decl.Accesses, a)
	}
	return c
}

// scripted is the client of one worker, which has its programs from startSmall.
type scripted struct {
	all  []*scriptedProgram
	next int
	mark uint64
}

func (c *scripted) Next() (*proto.Decl, proto.Program) {
	p := c.all[c.next%len(c.all)]
	c.next++
	p.mark = c.mark<<8 | uint64(c.next)
	return &p.decl, p
}

func (c *scripted) Done(proto.Outcome)     {}
func (c *scripted) AddTo(*workload.Ledger) {}

// scriptedProgram is a transaction.
type scriptedProgram struct {
	ops   []string
	decl  proto.Decl
	value []byte
	mark  uint64
}

// Execute implements proto.Program.
func (c *scriptedProgram) Execute(tx proto.Txn) error {
	for i, op := range c.ops {
		if op == rollsBack {
			return proto.ErrRollback
		}
		if err := c.one(tx, op[0], keyOf(op[1]), uint64(i)); err != nil {
			return err
		}
	}
	return nil
}

// rollsBack is the operation that ends a transaction without effect.
const rollsBack = "x"

// absences are the answers that a program goes on with.
var absences = []error{proto.ErrNotFound, proto.ErrExists}

func (c *scriptedProgram) one(tx proto.Txn, op byte, k proto.Key, number uint64) (err error) {
	next := func() []byte {
		binary.LittleEndian.PutUint64(c.value, c.mark<<8|number)
		return c.value
	}
	switch op {
	case 'r':
		err = tx.Read(scriptTable, k, c.value)
	case 'w':
		err = tx.Write(scriptTable, k, next())
	case 'u':
		if err = tx.GetForUpdate(scriptTable, k, c.value); err == nil {
			err = tx.Write(scriptTable, k, next())
		}
	case 'i':
		err = tx.Insert(scriptTable, k, next())
	case 'd':
		err = tx.Delete(scriptTable, k)
	}
	if slices.ContainsFunc(absences, func(e error) bool { return errors.Is(err, e) }) {
		return nil
	}
	return err
}
