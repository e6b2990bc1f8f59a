package dlht

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"drtmd/store/internal/tabletest"
)

// TestRealThreadsSeeOneOrder is TestThreadsInEveryOrderSeeOneTable with threads of the machine.
func TestRealThreadsSeeOneOrder(t *testing.T) {
	rounds := 100
	if raceEnabled || testing.Short() {
		rounds = 10
	}
	for round := range rounds {
		table := newTable(t, Config{})
		var threads []func(do func(any, func() (any, error)) bool)
		for i := range uint64(4) {
			threads = append(threads, func(do func(any, func() (any, error)) bool) {
				random := rand.New(rand.NewPCG(uint64(round), i))
				for n := range uint64(40) {
					in := Request{Op: Op(1 + random.IntN(4)), Key: random.Uint64N(40), Value: n<<8 | i + 1}
					do(in, func() (any, error) { return one(table, in), nil })
				}
			})
		}
		tabletest.OneOrder(t, round, wordModel, threads...)
	}
}

// TestATableGrowsUnderLoad from 8 bins: threads insert, put and delete records of their own and see each of their
// changes, others read records that stay, and one looks at all records.
func TestATableGrowsUnderLoad(t *testing.T) {
	n := uint64(200_000)
	if raceEnabled || testing.Short() {
		n = 5_000
	}
	const writers, stay = 3, 1000
	table := newTable(t, Config{})
	for k := range uint64(stay) {
		if _, ok, err := table.Insert(k, k); !ok || err != nil {
			t.Fatal(k, ok, err)
		}
	}
	var done atomic.Bool
	var work, look sync.WaitGroup
	for w := range uint64(writers) {
		work.Go(func() {
			for i := range n {
				k := stay + i*writers + w
				_, inserted, err := table.Insert(k, i)
				old, found, failed := table.Put(k, i+1)
				v, there := table.Get(k)
				if !inserted || err != nil || !found || failed != nil || old != i || !there || v != i+1 {
					t.Errorf("key %d: inserted %v, %v; had %d, %v, %v; has %d, %v", k, inserted, err, old, found, failed,
						v, there)
					return
				}
				if i%2 == 0 {
					if v, found := table.Delete(k); !found || v != i+1 {
						t.Errorf("key %d: deleted %d, %v", k, v, found)
						return
					}
				}
			}
		})
	}
	look.Go(func() {
		for k := uint64(0); !done.Load(); k = (k + 1) % stay {
			if v, ok := table.Get(k); !ok || v != k {
				t.Errorf("key %d has %d, %v", k, v, ok)
				return
			}
		}
	})
	look.Go(func() {
		for !done.Load() {
			count := 0
			for k := range table.All() {
				if k < stay {
					count++
				}
			}
			if count != stay {
				t.Errorf("%d of %d records that stay", count, stay)
				return
			}
			runtime.Gosched()
		}
	})
	work.Wait()
	done.Store(true)
	look.Wait()
	count := uint64(0)
	for range table.All() {
		count++
	}
	if want := stay + writers*(n/2); count != want {
		t.Errorf("%d records, want %d", count, want)
	}
}

// TestBlocksAreReusedUnderLoad: threads put values of many sizes and read each other's. Each value says of which key
// and how long it is. The memory stays within a bound that all values of the run would exceed by far.
func TestBlocksAreReusedUnderLoad(t *testing.T) {
	n := 40_000
	if raceEnabled || testing.Short() {
		n = 2_000
	}
	m, err := NewMap(MapConfig{MaxBlockBytes: 8 * chunkWords * 8})
	if err != nil {
		t.Fatal(err)
	}
	keyOf := func(k uint64) []byte { return []byte(fmt.Sprintf("key %d, which is long", k)) }
	value := func(k, size uint64, to []byte) []byte {
		to = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(to[:0], k), size)
		for range size {
			to = append(to, byte(k))
		}
		return to
	}
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			x, err := m.Thread()
			if err != nil {
				t.Error(err)
				return
			}
			defer x.Close()
			random := rand.New(rand.NewPCG(1, uint64(i)))
			var have, want []byte
			for range n {
				k := random.Uint64N(50)
				want = value(k, random.Uint64N(200), want)
				switch random.IntN(4) {
				case 0:
					_, err = x.Insert(keyOf(k), want)
				case 1:
					_, err = x.Put(keyOf(k), want)
				case 2:
					if random.IntN(4) == 0 {
						x.Delete(keyOf(k))
					}
				default:
					var found bool
					if have, found = x.Get(keyOf(k), have[:0]); !found {
						break
					}
					size := binary.LittleEndian.Uint64(have[8:])
					if want = value(k, min(size, 200), want); string(have) != string(want) {
						err = fmt.Errorf("key %d has %q", k, have)
					}
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	t.Logf("%d bytes of blocks", m.BlockBytes())
}
