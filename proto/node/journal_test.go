package node_test

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"drtmd/proto"
	"drtmd/proto/node"
	"drtmd/store/layout"
	"drtmd/verbs/fiber"
)

// Places in a journal and in a table (package words, package store): the tests below do what a process does that is
// killed in the middle of a change.
const (
	journalNotes = 16
	journalFirst = 64
	tableLock    = layout.CounterOffset + 16
)

// unworded is a cluster that keeps its tables in memory without line words.
func unworded(t *testing.T, dir string, attach bool) (*node.Cluster, error) {
	t.Helper()
	cfg := durable(dir, attach)
	cfg.WithoutLineWords = true
	return node.NewLocal(context.Background(), cfg)
}

// moved has each client make so many transfers, whose records are inserted.
func moved(t *testing.T, c *node.Cluster, from, count int) {
	t.Helper()
	err := c.Start("clients", durableClients, func(f *fiber.Fiber, w *node.Worker, i int) error {
		client := proto.Key(int(w.Node)*durableClients + i)
		run := proto.Runner{Engine: w.Engine, Rand: rand.New(rand.NewPCG(uint64(client), 1))}
		for n := uint64(from + 1); n <= uint64(from+count); n++ {
			x := newTransfer(client, n, run.Rand)
			if _, err := run.Run(f, &x.d, x); err != nil {
				return err
			}
		}
		return nil
	}).Wait(context.Background())
	if err != nil {
		t.Fatal(err)
	}
}

// TestAChangeOfATableThatWasCutOffIsPutBack: without line words, a process that is killed while it changes a table leaves
// half of the change, and the table's lock. The next life puts back what was there, and goes on.
func TestAChangeOfATableThatWasCutOffIsPutBack(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	if !keeps(t, dir) { // a race build
		return
	}
	c, err := unworded(t, dir, false)
	if err != nil {
		t.Fatal(err)
	}
	moved(t, c, 0, 20)
	m := c.Members[1]
	region := m.Workers[0].MR.Bytes()
	table := m.TableAt(2)
	slots := region[table+layout.TableHeadBytes:][:8*layout.BucketBytes] // the first buckets, of records of transfers
	was := string(slots)
	journal := region[m.JournalsAt():]
	for i := range uint64(4) { // the third word is stored to twice
		off := table + layout.TableHeadBytes + 8*int(min(i, 2))
		note := journal[journalFirst+16*i:]
		binary.LittleEndian.PutUint64(note, uint64(off))
		copy(note[8:16], region[off:])
		binary.LittleEndian.PutUint64(region[off:], 0xbad0+i)
	}
	binary.LittleEndian.PutUint64(journal[journalNotes:], 4)
	region[table+tableLock] = 1
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if c, err = unworded(t, dir, true); err != nil {
		t.Fatal(err)
	}
	region = c.Members[1].Workers[0].MR.Bytes()
	if string(region[table+layout.TableHeadBytes:][:len(was)]) != was || region[table+tableLock] != 0 {
		t.Fatal("half of a change is there, or its lock") // with which transactions would be tried for ever
	}
	moved(t, c, 20, 20)
	if err := c.Stop(); err != nil {
		t.Error(err)
	}
	told := make([]uint64, durableNodes*durableClients)
	for i := range told {
		told[i] = 40
	}
	checkLedger(t, c, told)
	// A journal that cannot be is refused.
	binary.LittleEndian.PutUint64(region[c.Members[1].JournalsAt()+journalNotes:], 1<<40)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err = unworded(t, dir, true); err == nil || !strings.Contains(err.Error(), "journal of table changes") {
		t.Errorf("%v, want that the journal is refused", err)
	}
}
