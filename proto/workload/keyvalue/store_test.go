package keyvalue

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"drtmd/proto"
)

var treesAndHash = []Store{HashTable, Map, BTree, BPlusTree}

// TestStoresFindEveryRecord of any number of records, and no key that nobody has.
func TestStoresFindEveryRecord(t *testing.T) {
	for _, s := range treesAndHash {
		for _, n := range []int{1, 2, 3, 14, 15, 16, 17, 31, 225, 300, 5000} {
			x := newIndex(s, n)
			for r := range n {
				if got, ps, ok := x.find(clientKey(r)); !ok || got != r || ps <= 0 {
					t.Fatalf("%v of %d: record %d: %d, %d ps, %v", s, n, r, got, ps, ok)
				}
				if got, _, ok := x.find(clientKey(n + r)); ok {
					t.Fatalf("%v of %d: the key of record %d, which is not there, leads to %d", s, n, n+r, got)
				}
			}
		}
	}
}

// TestALookUpReadsTheNodesOnItsWay: of 2^k-1 records of a binary tree as many nodes as levels at most, and one of half of
// the records is at the lowest. The other trees have fewer levels of more lines; a B+ tree reads all of its levels for each key.
func TestALookUpReadsTheNodesOnItsWay(t *testing.T) {
	const levels = 10 // 64 KB hold them: each line takes as long
	lines := func(s Store, n int) (least, most, sum int64) {
		x := newIndex(s, n)
		least = 1 << 62
		for r := range n {
			_, ps, _ := x.find(clientKey(r))
			ps /= firstPs
			least, most, sum = min(least, ps), max(most, ps), sum+ps
		}
		return least, most, sum
	}
	n := 1<<levels - 1
	least, most, sum := lines(Map, n)
	// 2^d records are at depth d, and cost d+1 lines.
	if want := int64((levels-1)<<levels + 1); least != 1 || most != levels || sum != want {
		t.Errorf("map: %d to %d lines, %d in all, want 1 to %d, %d in all", least, most, sum, levels, want)
	}
	_, most, tree := lines(BTree, n)
	least, _, plus := lines(BPlusTree, n)
	if most > 3*4 || least < 3*3 || tree >= plus {
		t.Errorf("B-tree %d lines in all, at most %d; B+ tree %d, at least %d", tree, most, plus, least)
	}
	if _, most, _ := lines(HashTable, n); most > 4 {
		t.Errorf("hash table: up to %d lines of a bucket", most)
	}
}

// TestLargeIndexesAreReadFromSlowerCaches: the last level is in memory, the root is not.
func TestLargeIndexesAreReadFromSlowerCaches(t *testing.T) {
	const n = 1 << 19
	mean := map[Store]int64{}
	for _, s := range []Store{HashTable, BTree, Map} {
		x := newIndex(s, n)
		for r := 0; r < n; r += 997 {
			_, ps, _ := x.find(clientKey(r))
			mean[s] += ps
		}
		if l := x.levels; s == Map && (l[0] != firstPs || l[12] != secondPs || l[15] != lastPs || l[18] != memoryPs) {
			t.Errorf("levels take %v ps", l[:19])
		}
	}
	if mean[HashTable] >= mean[Map] || mean[BTree] >= mean[Map] {
		t.Errorf("look-ups take %v", mean)
	}
}

// spender adds up what a program is charged.
type spender struct {
	proto.Txn
	ps int64
}

func (s *spender) Charge(ps int64) { s.ps += ps }

// TestAWrongPlaceIsNoticed, and a look-up is charged.
func TestAWrongPlaceIsNoticed(t *testing.T) {
	s, err := NewSpace(Space{Nodes: 2, Keys: 100, ValueBytes: 8, Store: Map}, 0)
	if err != nil {
		t.Fatal(err)
	}
	x := &spender{}
	if err := s.lookUp(x, s.Key(17)); err != nil || x.ps == 0 {
		t.Errorf("%v, %d ps", err, x.ps)
	}
	s.index.records[0], s.index.records[1] = s.index.records[1], s.index.records[0]
	wrong := 0
	for r := range s.Records() {
		if s.lookUp(x, s.Key(r)) != nil {
			wrong++
		}
	}
	if wrong != 2 {
		t.Errorf("%d of two wrong places were noticed", wrong)
	}
}

// TestTheManualHasTheTimeOfALine: docs/SIM.md says what a line of an index takes.
func TestTheManualHasTheTimeOfALine(t *testing.T) {
	text, err := os.ReadFile("../../../docs/SIM.md")
	if err != nil {
		t.Fatal(err)
	}
	row := fmt.Sprintf("| a line of a store's index (`--store`) | %d, %d, %d or %d ns |", linePs(firstBytes)/1000,
		linePs(secondBytes)/1000, linePs(lastBytes)/1000, linePs(lastBytes+1)/1000)
	if !strings.Contains(string(text), row) {
		t.Errorf("docs/SIM.md does not have the row %q", row)
	}
}
