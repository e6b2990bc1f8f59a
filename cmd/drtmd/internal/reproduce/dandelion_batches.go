package reproduce

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"drtmd/internal/hostmem"
	"drtmd/store/dlht"
)

// Figure 7 of Dandelion: Gets of DLHT in batches against Gets one by one, by the wall clock, on one thread. It does both in turns
// of one or two milliseconds, which are mostly shorter than what a scheduler gives at a time, and medians count: other
// programs on the machine take little part in them.

// Of Figure 7. The paper has 100 million keys and 16 threads.
const (
	batchKeys  = 100_000_000
	fewestKeys = 1_000_000
	quickKeys  = 1 << 20
	getsOfTurn = 1 << 14
)

// batchSizes are those of the figure.
func batchSizes() []number {
	sizes := make([]number, 6)
	for i := range sizes {
		sizes[i] = number{what: fmt.Sprintf("Gets in batches of %d, over Gets one by one", batchOf(i)), unit: "x", section: "§6",
			digits: 2}
	}
	sizes[judgedSize].printed, sizes[judgedSize].paper = "more than 3", 3
	return sizes
}

// judgedSize is the index of the size that the paper has a number for: the goal is more than 2 times, and with a quick
// run, of whose table caches have a part, any gain.
const judgedSize = 4

func batchOf(i int) int { return [...]int{2, 4, 8, 16, 24, 32}[i] }

// keysThatFit is how many keys a table may have so that its bins take half of the memory that the host has available.
func keysThatFit(most int) int {
	available, known := hostmem.Available()
	for known && most > fewestKeys && uint64((dlht.Config{Keys: most}).Bytes()) > available/2 {
		most /= 2
	}
	return most
}

// batchKey makes keys that lie nowhere near each other.
func batchKey(i uint64) uint64 { return (i + 1) * 0x9e3779b97f4a7c15 }

// dandelionBatches is Figure 7.
func dandelionBatches(r *Run) (*Outcome, error) {
	keys := pick(r, keysThatFit(batchKeys), quickKeys)
	table, err := dlht.New(dlht.Config{Keys: keys})
	if err != nil {
		return nil, err
	}
	for i := range uint64(keys) {
		if _, _, err := table.Insert(batchKey(i), i); err != nil {
			return nil, err
		}
		if i%(1<<22) == 0 {
			if err := r.step(0, len(batchSizes())); err != nil {
				return nil, err
			}
		}
	}
	o := &Outcome{Conditions: fmt.Sprintf("%d keys of 8 bytes with values of 8 bytes, uniform, in bins of %d MB; one thread; "+
		"turns of %d Gets; %s", keys, (dlht.Config{Keys: keys}).Bytes()/1e6, getsOfTurn, r.seedsText())}
	for i, n := range batchSizes() {
		if err := r.step(i, len(batchSizes())); err != nil {
			return nil, err
		}
		var values []float64
		for seed := range uint64(r.Seeds) {
			x := &batchRun{table: table, keys: uint64(keys), size: batchOf(i), seed: seed + 1}
			value, err := x.faster(pick(r, 200, 20))
			if err != nil {
				return nil, err
			}
			values = append(values, value)
		}
		o.Rows = append(o.Rows, n.seen(values...))
		if i == judgedSize {
			least := pick(r, 2.0, 1.0)
			o.Rows = append(o.Rows, textSays(fmt.Sprintf("more than %g times with batches of %d", least, batchOf(i)), "§6",
				"other programs had the machine's caches and memory meanwhile", mean(values) > least))
		}
	}
	return o, nil
}

// batchRun compares a size of batches with single Gets.
type batchRun struct {
	table *dlht.Table
	keys  uint64
	size  int
	seed  uint64
}

// faster is how much shorter a Get of a batch takes than a single one, by the medians of the turns.
func (x *batchRun) faster(turns int) (float64, error) {
	random := rand.New(rand.NewPCG(x.seed, 1))
	var medians [2]float64 // one by one, in batches
	var took [2][]float64
	for range turns {
		for kind, batch := range []bool{false, true} {
			start := time.Now()
			if err := x.gets(random, batch); err != nil {
				return 0, err
			}
			took[kind] = append(took[kind], time.Since(start).Seconds())
		}
	}
	for kind, list := range took {
		slices.Sort(list)
		medians[kind] = list[len(list)/2]
	}
	return medians[0] / medians[1], nil
}

func (x *batchRun) gets(random *rand.Rand, batch bool) error {
	requests := make([]dlht.Request, x.size)
	for range getsOfTurn / x.size {
		for i := range requests {
			requests[i] = dlht.Request{Op: dlht.OpGet, Key: batchKey(random.Uint64N(x.keys))}
		}
		if batch {
			x.table.Batch(requests)
		} else {
			for i := range requests {
				requests[i].Value, requests[i].Done = x.table.Get(requests[i].Key)
			}
		}
		for i := range requests {
			if r := &requests[i]; !r.Done || batchKey(r.Value) != r.Key {
				return fmt.Errorf("the table has lost key %#x", r.Key)
			}
		}
	}
	return nil
}
