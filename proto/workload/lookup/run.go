package lookup

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"drtmd/proto/workload/zipf"
	"drtmd/store/layout"
	"drtmd/store/remote"
)

// Options of Run.
type Options struct {
	Slots int    // main slots of each structure, a multiple of 8; 0 = DefaultSlots
	Seed  uint64 // of everything that is drawn
	// Progress, if not nil, is told after each step how many of all are done.
	Progress func(done, total int)
	// Stop, if not nil, is asked before each step and ends the run with ErrStopped.
	Stop func() bool
}

// DefaultSlots are enough for the digits that the paper prints; it used 20 million itself.
const DefaultSlots = 1_000_000

// Bounds of Options.Slots.
const (
	MinSlots = 1024
	MaxSlots = 1 << 30
)

var (
	// ErrSlots: Options.Slots is out of bounds.
	ErrSlots = errors.New("bad number of slots")
	// ErrStopped: Options.Stop has ended the run.
	ErrStopped = errors.New("stopped")
)

// occupancies of the main slots, in percent.
var occupancies = [...]int{50, 75, 90}

const (
	theta       = 0.99 // of Zipf, as in YCSB
	scramblings = 100  // over which the mean of a Zipf row is taken
	hotRanks    = 1 << 16
	cacheWays   = 8 // of this store's cache
)

// Run measures the table.
func Run(o Options) (Table, error) {
	if o.Slots == 0 {
		o.Slots = DefaultSlots
	}
	if o.Slots < MinSlots || o.Slots > MaxSlots || o.Slots%layout.BucketSlots != 0 {
		return Table{}, fmt.Errorf("%w: %d; take a multiple of %d from %d to %d", ErrSlots, o.Slots,
			layout.BucketSlots, MinSlots, MaxSlots)
	}
	r := &run{Options: o, rows: newRows()}
	for _, occupancy := range occupancies {
		if err := r.measure(occupancy); err != nil {
			return Table{}, fmt.Errorf("at %d %%: %w", occupancy, err)
		}
	}
	t := Table{Schema: Schema, Slots: o.Slots, Seed: o.Seed}
	for _, x := range r.rows {
		t.Rows = append(t.Rows, *x)
	}
	return t, nil
}

// run is a run under way, at one occupancy at a time.
type run struct {
	Options
	rows      []*Row
	occupancy int
	keys      int
	zipf      *zipf.Zipf
	done      int
}

// stepsPerOccupancy: three structures, two counts of the last, three caches.
const stepsPerOccupancy = 7

// step says that a step begins.
func (r *run) step() error {
	if r.Stop != nil && r.Stop() {
		return ErrStopped
	}
	if r.Progress != nil && r.done > 0 {
		r.Progress(r.done, stepsPerOccupancy*len(occupancies))
	}
	r.done++
	return nil
}

func (r *run) random(stream uint64) *rand.Rand {
	return rand.New(rand.NewPCG(r.Seed, stream<<32|uint64(r.occupancy)))
}

func (r *run) measure(occupancy int) error {
	r.occupancy, r.keys = occupancy, r.Slots/100*occupancy
	var err error
	if r.zipf, err = zipf.New(uint64(r.keys), theta); err != nil {
		return err
	}
	steps := []func() error{
		func() error { return r.structure(rowCuckoo, newCuckoo(r.Slots, r.random(1))) },
		func() error { return r.structure(rowHopscotch, newHopscotch(r.Slots)) },
		r.clusters,
	}
	for _, f := range steps {
		if err := r.step(); err != nil {
			return err
		}
		if err := f(); err != nil {
			return err
		}
	}
	return nil
}

// structure fills one and counts.
func (r *run) structure(row int, s interface {
	insert(key uint64) error
	reads(key uint64) int
}) error {
	for k := range uint64(r.keys) {
		if err := s.insert(k); err != nil {
			return fmt.Errorf("key %d of %d: %w", k, r.keys, err)
		}
	}
	return r.count(row, s)
}

// count gives the uniform row and the Zipf row behind it.
func (r *run) count(row int, s interface{ reads(key uint64) int }) error {
	reads := make([]uint8, r.keys)
	sum, squares := 0.0, 0.0
	for k := range reads {
		n := s.reads(uint64(k))
		if n == 0 || n > math.MaxUint8 {
			return fmt.Errorf("key %d of %d takes %d reads", k, r.keys, n)
		}
		reads[k] = uint8(n)
		sum += float64(n)
		squares += float64(n * n)
	}
	mean := sum / float64(r.keys)
	r.add(row, Cell{Ours: mean})
	deviation := math.Sqrt(max(0, squares/float64(r.keys)-mean*mean))
	r.add(row+1, r.skewed(reads, mean, deviation))
	return nil
}

// skewed draws one run of Zipf look-ups, as many as there are slots, and takes the expectation
// over scramblings: exactly for the hot ranks, and with the uniform mean for the others, which weigh
// too little to move it by more than 0.0005.
func (r *run) skewed(reads []uint8, mean, deviation float64) Cell {
	random := r.random(2)
	n := uint64(r.keys)
	sum := 0
	for range r.Slots {
		sum += int(reads[zipf.Scramble(r.zipf.Rank(random), r.Seed, n)])
	}
	c := Cell{Ours: float64(sum) / float64(r.Slots)}
	rest, squares := 1.0, 0.0
	for rank := range min(n, hotRanks) {
		p := r.zipf.Probability(rank)
		rest -= p
		squares += p * p
		hot := 0
		for i := range uint64(scramblings) {
			hot += int(reads[zipf.Scramble(rank, r.Seed+1+i, n)])
		}
		c.Mean += p * float64(hot) / scramblings
	}
	c.Mean += rest * mean
	c.Sigma = math.Sqrt(squares) * deviation
	return c
}

// clusters counts one table of the real store in all ways.
func (r *run) clusters() error {
	c, err := newCluster(r.Slots, r.keys)
	if err != nil {
		return err
	}
	if err := r.structure(rowCluster, c); err != nil {
		return err
	}
	l := newLinked(r.Slots, r.keys)
	for _, f := range []func() error{
		func() error { return r.count(rowLinked, l) },
		func() error { return r.fitted(l) },
		func() error { return r.own(c) },
		func() error { return r.text(l) },
	} {
		if err := r.step(); err != nil {
			return err
		}
		if err := f(); err != nil {
			return err
		}
	}
	return nil
}

// uniform and skewedKeys draw keys.
func (r *run) uniform(stream uint64) func() uint64 {
	random, n := r.random(stream), uint64(r.keys)
	return func() uint64 { return random.Uint64N(n) }
}

func (r *run) skewedKeys(stream uint64) func() uint64 {
	random, n := r.random(stream), uint64(r.keys)
	return func() uint64 { return zipf.Scramble(r.zipf.Rank(random), r.Seed, n) }
}

// average is the mean of what look gives for n keys.
func average(n int, next func() uint64, look func(uint64) int) float64 {
	sum := 0
	for range n {
		sum += look(next())
	}
	return float64(sum) / float64(n)
}

// fitted runs the fitted cache: cold and of half size, and for Zipf also warm and of full size.
func (r *run) fitted(l *linked) error {
	cold := func() *keyCache { return &keyCache{make([]uint32, r.Slots/2), l} }
	n := r.Slots / 10 * 6
	r.add(rowFitted, Cell{Ours: average(n, r.uniform(3), cold().look)})
	r.add(rowFitted+1, Cell{Ours: average(n, r.skewedKeys(4), cold().look)})
	warm := &keyCache{make([]uint32, r.Slots), l}
	next := r.skewedKeys(5)
	average(r.Slots/10*18, next, warm.look)
	r.add(rowWarm, Cell{Ours: average(r.Slots/10*2, next, warm.look)})
	return nil
}

// own runs this store's cache, with the bytes of the fitted one.
func (r *run) own(c *cluster) error {
	for i, next := range []func() uint64{r.uniform(3), r.skewedKeys(4)} {
		cache := remote.NewCache(r.Slots/2*layout.SlotBytes, cacheWays)
		var failed error
		mean := average(r.Slots/10*6, next, func(key uint64) int {
			n, err := c.look(key, cache)
			if err != nil && failed == nil {
				failed = err
			}
			return n
		})
		if failed != nil {
			return failed
		}
		r.add(rowOwn+i, Cell{Ours: mean})
	}
	return nil
}

// text is the two figures that the paper's text gives (§6.4): a full-size cold cache at 90 %.
func (r *run) text(l *linked) error {
	if r.occupancy != 90 {
		return nil
	}
	for i, threads := range []int{1, 8} {
		c := &keyCache{make([]uint32, r.Slots), l}
		r.add(rowText+i, Cell{Ours: average(threads*r.Slots, r.uniform(uint64(6+i)), c.look)})
	}
	return nil
}
