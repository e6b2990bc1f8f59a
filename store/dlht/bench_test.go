package dlht

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/puzpuzpuz/xsync/v4"
)

// benchKeys is how many keys the benchmarks use. The paper has 100 million in 4 GB (Figure 7):
// DLHT_KEYS=100000000 go test -bench . ./store/dlht
func benchKeys(b *testing.B) int {
	if s := os.Getenv("DLHT_KEYS"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			b.Fatal(err)
		}
		return n
	}
	if testing.Short() {
		return 1000
	}
	return 1_000_000
}

// spread makes keys that lie nowhere near each other.
func spread(i uint64) uint64 { return (i + 1) * 0x9e3779b97f4a7c15 }

// BenchmarkBatch is Figure 7: Gets of random keys one by one and in batches, on two threads, in turns of one run.
// faster is how much shorter a Get of the batch takes.
func BenchmarkBatch(b *testing.B) {
	n := benchKeys(b)
	table := newTable(b, Config{Keys: n})
	for i := range uint64(n) {
		if _, _, err := table.Insert(spread(i), i); err != nil {
			b.Fatal(err)
		}
	}
	for _, size := range []int{2, 4, 8, 16, 24, 32} {
		b.Run(fmt.Sprintf("keys=%d/batch=%d", n, size), func(b *testing.B) {
			var single, batched time.Duration
			turns := 0
			for b.Loop() {
				turns++
				for _, batch := range []bool{false, true} {
					took := onThreads(func(random *rand.Rand) { getMany(b, table, random, n, size, batch) })
					if batch {
						batched += took
					} else {
						single += took
					}
				}
			}
			b.ReportMetric(single.Seconds()/batched.Seconds(), "x-faster")
			b.ReportMetric(float64(batched.Nanoseconds())/float64(turns*getsPerTurn), "ns/get")
			b.ReportMetric(0, "ns/op")
		})
	}
}

const getsPerTurn = 1 << 14

func getMany(b *testing.B, table *Table, random *rand.Rand, n, size int, batch bool) {
	requests := make([]Request, size)
	for range getsPerTurn / size {
		for i := range requests {
			requests[i] = Request{Op: OpGet, Key: spread(random.Uint64N(uint64(n)))}
		}
		if batch {
			table.Batch(requests)
		} else {
			for i := range requests {
				requests[i].Value, requests[i].Done = table.Get(requests[i].Key)
			}
		}
		for i := range requests {
			if !requests[i].Done {
				b.Error("not found: ", requests[i].Key)
			}
		}
	}
}

// onThreads runs a function on two threads at once and says how long that took.
func onThreads(f func(*rand.Rand)) time.Duration {
	var all sync.WaitGroup
	start := time.Now()
	for i := range uint64(2) {
		all.Go(func() { f(rand.New(rand.NewPCG(rand.Uint64(), i))) })
	}
	all.Wait()
	return time.Since(start)
}

// rival is a concurrent map.
type rival struct {
	name string
	get  func(uint64) (uint64, bool)
	put  func(key, value uint64)
}

// BenchmarkAgainst compares the table with Go's map under a lock, sync.Map and xsync.Map, on two threads: random
// Gets, and half Gets and half Puts. All take turns in one run; x-NAME is how much longer NAME takes.
func BenchmarkAgainst(b *testing.B) {
	n := benchKeys(b)
	table := newTable(b, Config{Keys: n})
	var mu sync.RWMutex
	plain, std, xs := make(map[uint64]uint64, n), sync.Map{}, xsync.NewMap[uint64, uint64](xsync.WithPresize(n))
	rivals := []rival{
		{"dlht", table.Get, func(k, v uint64) { table.Put(k, v) }},
		{"map+RWMutex", func(k uint64) (uint64, bool) {
			mu.RLock()
			defer mu.RUnlock()
			v, ok := plain[k]
			return v, ok
		}, func(k, v uint64) {
			mu.Lock()
			plain[k] = v
			mu.Unlock()
		}},
		{"sync.Map", func(k uint64) (uint64, bool) {
			v, ok := std.Load(k)
			return v.(uint64), ok
		}, func(k, v uint64) { std.Store(k, v) }},
		{"xsync", xs.Load, xs.Store},
	}
	for i := range uint64(n) {
		if _, _, err := table.Insert(spread(i), i); err != nil {
			b.Fatal(err)
		}
		for _, r := range rivals[1:] {
			r.put(spread(i), i)
		}
	}
	// Reads of a map that nobody writes need no lock.
	unlocked := rival{"map", func(k uint64) (uint64, bool) { v, ok := plain[k]; return v, ok }, nil}
	for _, mix := range []struct {
		name   string
		puts   uint64 // of 2
		rivals []rival
	}{{"get", 0, append(rivals[:len(rivals):len(rivals)], unlocked)}, {"get+put", 1, rivals}} {
		b.Run(fmt.Sprintf("keys=%d/%s", n, mix.name), func(b *testing.B) {
			took := make([]time.Duration, len(mix.rivals))
			turns := 0
			for b.Loop() {
				turns++
				for i, r := range mix.rivals {
					took[i] += onThreads(func(random *rand.Rand) {
						for range getsPerTurn {
							key := spread(random.Uint64N(uint64(n)))
							if mix.puts > 0 && random.Uint64()&1 == 0 {
								r.put(key, 1)
							} else if _, ok := r.get(key); !ok {
								b.Error("not found: ", key)
							}
						}
					})
				}
			}
			for i, r := range mix.rivals[1:] {
				b.ReportMetric(took[i+1].Seconds()/took[0].Seconds(), "x-"+r.name)
			}
			b.ReportMetric(float64(took[0].Nanoseconds())/float64(turns*getsPerTurn), "ns/dlht")
			b.ReportMetric(0, "ns/op")
		})
	}
}
