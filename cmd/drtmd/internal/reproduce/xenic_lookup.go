package reproduce

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"unsafe"

	"drtmd/cmd/drtmd/internal/report"
	"drtmd/htm"
	"drtmd/proto/workload/lookup"
	"drtmd/store/layout"
	"drtmd/store/robinhood"
)

// Table 2 of Xenic: objects and round trips of a look-up by DMA.

const (
	lookupPercent   = 90
	table2Keys      = 1_000_000 // the paper: 8 million; averages do not depend on it
	table2KeysQuick = 100_000
	table2Section   = "Table 2"

	objectsBound   = 0.03
	objectsNoLimit = 0.05 // long runs of slots err more
	tripsBound     = 0.008
	closedBound    = 0.005 // of the rows that are a formula: the last printed digit
	quickWidens    = 3     // about the root of the keys' ratio
)

// robinhoodRow is a row of a Robinhood table.
type robinhoodRow struct {
	name           string
	limit          int
	objects, trips string // as printed
}

// chainedRow is a row of DrTM+H's table, of B objects per bucket.
type chainedRow struct {
	perBucket      int
	objects, trips string
}

// lookupCost is what look-ups of every key cost on average.
type lookupCost struct{ objects, trips float64 }

// xenicTable2 fills tables, looks every key up, and counts.
func xenicTable2(r *Run) (*Outcome, error) {
	keys := pick(r, table2Keys, table2KeysQuick)
	widen := pick(r, 1.0, quickWidens)
	o := &Outcome{Conditions: fmt.Sprintf("%d random keys in tables whose slots they are %d %% of (the paper: 8 million; "+
		"averages do not depend on it), displacements known, %s", keys, lookupPercent, r.seedsText())}
	rows := []robinhoodRow{{"Robinhood, D_m = 8", 8, "3.43", "1.07"}, {"Robinhood, D_m = 16", 16, "4.13", "1.04"},
		{"Robinhood, D_m = 32", 32, "4.84", "1.02"}, {"Robinhood, no limit", robinhood.NoLimit, "6.39", "1"}}
	done, total := 0, (len(rows)+1)*r.Seeds
	for _, row := range rows {
		var objects, trips []float64
		for seed := range r.Seeds {
			if err := r.step(done, total); err != nil {
				return nil, err
			}
			c, err := robinhoodLookups(keys, row.limit, uint64(seed+1))
			if err != nil {
				return nil, err
			}
			objects, trips = append(objects, c.objects), append(trips, c.trips)
			done++
		}
		bound := objectsBound
		if row.limit == robinhood.NoLimit {
			bound = objectsNoLimit
		}
		add := func(what, printed string, limit float64, reading string, seen []float64) error {
			n, err := table2Number(row.name+": "+what, printed, limit*widen)
			n.reading = reading
			o.Rows = append(o.Rows, n.seen(seen...))
			return err
		}
		if err := add("objects", row.objects, bound, "d_i + 1 slots from the home, segments of four homes, the limit counts "+
			"the slots of a whole insertion; the overflow page is not counted", objects); err != nil {
			return nil, err
		}
		if err := add("trips", row.trips, tripsBound, "DMA reads, one more for a key in the overflow page", trips); err != nil {
			return nil, err
		}
	}
	var hopscotch []float64
	for seed := range r.Seeds {
		if err := r.step(done, total); err != nil {
			return nil, err
		}
		trips, err := lookup.HopscotchReads(keys/lookupPercent*100, lookupPercent, uint64(seed)<<31)
		if err != nil {
			return nil, err
		}
		hopscotch = append(hopscotch, trips)
		done++
	}
	n, err := table2Number("FaRM Hopscotch, H = 8: trips", "1.04", tripsBound*widen)
	n.reading = "the structure of DrTM's Table VI: buckets of 4, window of 2 buckets"
	o.Rows = append(o.Rows, n.seen(hopscotch...))
	chained, chainedErr := chainedRows()
	if err != nil {
		return nil, err
	}
	o.Rows = append(o.Rows, chained...)
	return o, chainedErr
}

func table2Number(what, printed string, bound float64) (number, error) {
	paper, err := strconv.ParseFloat(printed, 64)
	return number{what: what, section: table2Section, printed: printed, paper: paper, digits: 3,
		limit: within(bound)}, err
}

// robinhoodLookups looks every key up in a table with a D_m, with the segment words as hints.
func robinhoodLookups(keys, limit int, seed uint64) (c lookupCost, err error) {
	config := robinhood.Config{ID: 1, Name: "lookup", ValueBytes: 8, Homes: keys * 100 / lookupPercent, Limit: limit,
		Blocks: keys / 8}
	memory := lineAligned(config.Bytes())
	table, err := robinhood.Format(config, htm.NewMemory(memory, nil, 0, nil), 0)
	if err != nil {
		return c, err
	}
	value := make([]byte, config.ValueBytes)
	insert := rand.New(rand.NewPCG(seed, 2))
	for range keys {
		if err := table.Load(insert.Uint64(), value); err != nil {
			return c, err
		}
	}
	view := robinhood.MakeView(config, 0)
	var p robinhood.Probe
	lookUp := rand.New(rand.NewPCG(seed, 2))
	for range keys {
		key := lookUp.Uint64()
		word := view.Word(view.Segment(key))
		hint := *(*layout.Segment)(unsafe.Pointer(&memory[word]))
		for p.Start(&view, key, hint, true); !p.Done(); {
			off, n := p.Next()
			p.Feed(memory[off : off+n])
		}
		if p.Err() != nil {
			return c, fmt.Errorf("key %#x: %w", key, p.Err())
		}
		trips, objects := p.Cost()
		c.trips, c.objects = c.trips+float64(trips), c.objects+float64(objects)
	}
	c.trips, c.objects = c.trips/float64(keys), c.objects/float64(keys)
	return c, nil
}

// lineAligned is memory that begins with a line.
func lineAligned(n int) []byte {
	b := make([]byte, n+layout.LineBytes)
	return b[-uintptr(unsafe.Pointer(unsafe.SliceData(b)))%layout.LineBytes:][:n:n]
}

// chainedRows are those of DrTM+H's table, by formula: buckets hold B keys and the chain what is over, and the i-th
// key of a bucket takes i/B trips, rounded up.
func chainedRows() (rows []report.ComparedRow, err error) {
	for _, c := range []chainedRow{{4, "4.65", "1.16"}, {8, "8.81", "1.10"}, {16, "16.96", "1.06"}} {
		trips := chainedTrips(c.perBucket, float64(lookupPercent)/100)
		for _, x := range []struct {
			what, printed string
			ours          float64
		}{{"objects", c.objects, trips * float64(c.perBucket)}, {"trips", c.trips, trips}} {
			n, parse := table2Number(fmt.Sprintf("DrTM+H Chained, B = %d: %s", c.perBucket, x.what), x.printed, closedBound)
			if parse != nil {
				return nil, parse
			}
			n.reading = "closed form: as many keys per bucket as Poisson's law says, B objects a trip"
			rows = append(rows, n.seen(x.ours))
		}
	}
	return rows, nil
}

// chainedTrips is the mean over keys of ceil(i/B) for the i-th key of a bucket, with Poisson(load B) keys per bucket.
func chainedTrips(perBucket int, load float64) float64 {
	mean := load * float64(perBucket)
	sum, more := 0.0, 1.0 // the probability of i keys or more
	p := math.Exp(-mean)  // of exactly i-1
	for i := 1; i <= 40*perBucket; i++ {
		more -= p
		p *= mean / float64(i)
		sum += max(more, 0) * float64((i+perBucket-1)/perBucket)
	}
	return sum / mean
}

// Table 3 of Xenic: threads, with those of the NIC counted as so many of the host.

// What Table 1 has: CoreMark of all cores, the NIC's and the host's.
const (
	nicCoreMark, nicThreads   = 108724.0, 24.0
	hostCoreMark, hostThreads = 472691.0, 32.0
)

// threadsRow is a benchmark of Table 3.
type threadsRow struct {
	name       string
	host, nic  int    // threads of Xenic
	normalized string // as printed
	baseline   int    // threads of DrTM+H
	fasst      int    // threads of FaSST
	saved      string // as the text prints it
}

// table3 is what §5.6 has measured: the fewest threads that reach 95 % of the peak.
func table3() []threadsRow {
	return []threadsRow{{"TPC-C", 18, 12, "21.7", 24, 32, "2.3"}, {retwisTitle, 5, 16, "9.9", 18, 24, "8.1"},
		{smallbankTitle, 5, 16, "9.9", 20, 28, "10.1"}}
}

// coreRatio is how many threads of the host a core of the NIC counts as, of all that are busy.
func coreRatio() float64 { return nicCoreMark / nicThreads / (hostCoreMark / hostThreads) }

// xenicTable3 is arithmetic: the measured threads are the paper's.
func xenicTable3(*Run) (*Outcome, error) {
	ratio := coreRatio()
	o := &Outcome{Conditions: fmt.Sprintf("a NIC thread is %.4f of a host thread, from Table 1; thread counts are the "+
		"paper's, of a NIC and host that are not here", ratio)}
	for _, x := range table3() {
		ours := float64(x.host) + ratio*float64(x.nic)
		for _, n := range []struct {
			what, section, printed string
			ours                   float64
		}{{"normalized threads", "Table 3", x.normalized, ours},
			{"threads saved", "§5.6", x.saved, float64(x.baseline) - rounded(ours, 1)}} {
			paper, err := strconv.ParseFloat(n.printed, 64)
			if err != nil {
				return nil, err
			}
			o.Rows = append(o.Rows, number{what: x.name + ": " + n.what, unit: "threads", section: n.section,
				printed: n.printed, paper: paper, digits: 1, limit: within(0),
				reading: "the ratio of Table 1, unrounded; with the printed 0.31 two of three do not come out"}.
				seen(rounded(n.ours, 1)))
		}
	}
	return o, nil
}
