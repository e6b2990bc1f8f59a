package htm_test

import (
	"runtime"
	"sync/atomic"
	"testing"

	"drtmd/htm"
	"drtmd/verbs"
)

// TestRemoteAtomicsAndRegionsCountTogether has remote FAAs and WRITEs of whole lines run against
// regions on other threads: no increment is lost, and no region sees a torn line.
func TestRemoteAtomicsAndRegionsCountTogether(t *testing.T) {
	const (
		counter, whole = 0, 3 * lineBytes
		remotes, big   = 5000, 1 << 32
	)
	e := newShm(t)
	var stop atomic.Bool
	moved := make(chan int, 2)
	for range 2 {
		m, err := claim(e.host)
		must(t, err)
		go func() {
			r := htm.NewRegion(htm.Config{})
			n := 0
			for !stop.Load() {
				r.Begin()
				v, _ := r.Load64(m, counter)
				r.Store64(m, counter, v+1)
				var line [lineBytes]byte
				if r.Load(m, whole, line[:]) {
					for _, b := range line {
						if b != line[0] {
							t.Errorf("a region saw the line %v", line)
							break
						}
					}
				}
				if r.Commit(nil) {
					n++
				}
				runtime.Gosched()
			}
			moved <- n
		}()
	}
	for i := range remotes {
		e.post(verbs.WR{Op: verbs.OpFAA, CompareAdd: big}, counter, 8)
		e.wait()
		for k := range lineBytes {
			e.buffer.Bytes()[k] = byte(i)
		}
		e.post(verbs.WR{Op: verbs.OpWrite}, whole, lineBytes)
		e.wait()
	}
	stop.Store(true)
	want := uint64(<-moved+<-moved) + remotes*big
	if got := e.get(counter); got != want {
		t.Errorf("the counter is %#x, want %#x", got, want)
	}
}
