package scenario

import (
	"encoding/binary"

	"drtmd/proto/history"
	"drtmd/proto/rtx"
	"drtmd/proto/rtx/race"
	"drtmd/verbs/fiber"
	"drtmd/verbs/scenario"
)

// tableKeys are as many as fill several subtables of 42 slots, a few of which are in use all the time.
const tableKeys = 120

const checkHash = "hash table"

// tables is the load of a hash table. Its operations are no transactions of rtx, so each is one of the history.
type tables struct{}

func (tables) mutations() []scenario.Mutation { return race.Mutations() }

func (tables) slots() int { return 24 }

func (tables) steps() []string { return race.Steps() }

func (tables) crashes() []string { return rtx.Steps() }

func (tables) configure(*rtx.Config) {}

func (tables) shape() rtx.Shape {
	s := repairShape
	s.Classes = []rtx.Class{{Bytes: 64, Blocks: 512}, {Bytes: 576, Blocks: 256}}
	return s
}

func (tables) open(k *repairClient, f *fiber.Fiber) (err error) {
	k.table, err = race.Open(f, k.c, race.Config{Records: 0, Tables: 1, Versions: true,
		Mutation: k.mutation(race.Mutations())})
	return err
}

// hashKey is a key as the table has it.
func hashKey(key uint64) []byte { return binary.LittleEndian.AppendUint64(nil, key) }

// hashUser operates on a hash table, and takes down what it does.
type hashUser struct {
	table *race.Table
	torn  bool // it has met a value that nobody has written
}

// seek looks a key up and takes that down.
func (k *hashUser) seek(f *fiber.Fiber, t *history.Txn, key uint64) (race.Place, error) {
	p, err := k.table.Find(f, hashKey(key))
	switch {
	case err != nil:
	case !p.Found:
		t.ReadAbsent(treeTable, history.Key(key), history.Version(p.Version))
	case len(p.Value) != 8:
		k.torn = true
	default:
		t.Read(treeTable, history.Key(key), history.Version(p.Version),
			history.Digest(binary.LittleEndian.Uint64(p.Value)))
	}
	return p, err
}

// program draws an operation: a look-up, an insertion or update, or a deletion.
func (tables) program(k *repairClient, kind int, t *history.Txn) func(*rtx.Tx) error {
	key := uint64(k.rand.IntN(tableKeys))
	if k.registers == 2 || k.rand.IntN(3) == 0 {
		key %= 8
	}
	k.next++
	value := k.next
	return func(tx *rtx.Tx) error {
		return k.operate(tx.Fiber(), t, kind, key, value)
	}
}

// operate does an operation of a kind below 10: a look-up alone, or with an insertion, an update or a deletion behind it.
func (k *hashUser) operate(f *fiber.Fiber, t *history.Txn, kind int, key, value uint64) error {
	p, err := k.seek(f, t, key)
	if err != nil || kind < 2 || k.torn {
		return err
	}
	remove := p.Found && kind > 7
	version := history.Version(k.table.Next(&p, remove)) // before it is done, for who dies in the middle
	if remove {
		t.Delete(treeTable, history.Key(key), version)
		_, _, err = k.table.Delete(f, &p, hashKey(key))
		return err
	}
	change := k.table.Insert
	if p.Found {
		change = k.table.Update
	}
	t.Write(treeTable, history.Key(key), version, history.Digest(value))
	_, _, err = change(f, &p, hashKey(key), binary.LittleEndian.AppendUint64(nil, value))
	return err
}

func (tables) reads(int) bool { return false }

func (tables) all(k *repairClient, tx *rtx.Tx, t *history.Txn) error {
	f := tx.Fiber()
	for key := range uint64(tableKeys) {
		if _, err := k.seek(f, t, key); err != nil {
			return err
		}
	}
	return nil
}

func (tables) walk(k *repairClient, f *fiber.Fiber) {
	c, err := k.table.Check(f)
	if err != nil {
		k.e.Fail(checkHash, "%v", err)
	}
	k.reached, k.records = c.Objects, c.Records
	k.e.Count("objects", uint64(len(c.Objects)))
	k.e.Count("records", uint64(len(c.Records)))
}
