package onesided

import (
	"testing"

	"drtmd/proto"
	"drtmd/store/layout"
)

func TestLockWordNamesItsHolder(t *testing.T) {
	for _, c := range []struct {
		name             string
		node             proto.NodeID
		worker, tx, life uint32
		want             Word
	}{
		{"all zero", 0, 0, 0, 0, 1},
		{"node", 0xffff, 0, 0, 0, 0x1_ffff},
		{"worker", 0, MaxWorkers - 1, 0, 0, 0x1ffe_0001},
		{"transaction", 0, 0, MaxTxs - 1, 0, 0x1fff_e000_0001},
		{"life", 0, 0, 0, MaxLives - 1, 0xffff_e000_0000_0001},
		{"everything", 3, 5, 7, 9, 9<<45 | 7<<29 | 5<<17 | 3<<1 | 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := MakeWord(c.node, c.worker, c.tx, c.life)
			if w != c.want {
				t.Errorf("word %#x, want %#x", uint64(w), uint64(c.want))
			}
			if !layout.Locked(uint64(w)) {
				t.Error("the store does not take it for a lock")
			}
			if w.Node() != c.node || w.Worker() != c.worker || w.Tx() != c.tx || w.life() != c.life {
				t.Errorf("read back as %v", w)
			}
		})
	}
	if s := MakeWord(1, 2, 3, 4).String(); s != "locked by node 1 worker 2 transaction 3 life 4" {
		t.Errorf("String: %q", s)
	}
	if Unlocked.String() != "unlocked" {
		t.Errorf("String of 0: %q", Unlocked.String())
	}
}

func TestLockWordRefusesWhatDoesNotFit(t *testing.T) {
	for _, c := range []struct {
		name             string
		worker, tx, life uint32
	}{
		{"worker", MaxWorkers, 0, 0},
		{"transaction", 0, MaxTxs, 0},
		{"life", 0, 0, MaxLives},
	} {
		t.Run(c.name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("taken")
				}
			}()
			MakeWord(0, c.worker, c.tx, c.life)
		})
	}
}

func TestLivesOfNeighbouringIncarnationsDiffer(t *testing.T) {
	for _, base := range []uint64{1, 1 << 32, 7<<32 | 1, 1<<63 + 5} {
		seen := map[uint32]uint64{}
		for i := range uint64(64) {
			for _, inc := range []uint64{base + i, base + i<<8, base + i<<32} {
				life := lifeOf(inc)
				if other, ok := seen[life]; ok && other != inc {
					t.Errorf("incarnations %#x and %#x are both life %d", inc, other, life)
				}
				seen[life] = inc
			}
		}
	}
}
