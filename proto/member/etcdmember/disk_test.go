package etcdmember

import (
	"strings"
	"testing"
	"time"
)

// TestADiskIsSlowByTheMeanOfItsFsyncs or by one that does not end, is told once, and again when it is
// much worse; it is fast again after some fast fsyncs, or a while without any.
func TestADiskIsSlowByTheMeanOfItsFsyncs(t *testing.T) {
	w := diskWatch{dir: "/state"}
	count, seconds := uint64(0), 0.0
	for i, c := range []struct {
		fsyncs  uint64
		each    time.Duration
		pending float64
		news    bool
		slow    bool
		text    string
	}{
		{5, 5 * time.Millisecond, 0, false, false, ""},
		{0, 0, 0, false, false, ""},
		{2, 150 * time.Millisecond, 0, true, true, "an fsync of etcd's log takes 150ms"},
		{1, 160 * time.Millisecond, 0, false, true, ""},
		{1, 900 * time.Millisecond, 1, true, true, "takes 900ms"},
		{0, 0, 1, false, false, ""}, // one second may be a coincidence
		{0, 0, 1, true, true, "has waited for an fsync for 2s"},
		{0, 0, 1, false, true, ""},
		{0, 0, 1, false, true, ""},
		{0, 0, 1, true, true, "for 5s"},
	} {
		count, seconds = count+c.fsyncs, seconds+float64(c.fsyncs)*c.each.Seconds()
		d, news := w.look(count, seconds, c.pending)
		if news != c.news || d.Slow != c.slow || !strings.Contains(d.String(), c.text) ||
			!strings.Contains(d.String(), "the disk of /state is slow") {
			t.Errorf("look %d: news %v, %+v: %v", i, news, d, d)
		}
	}
	for i := range 100 {
		count, seconds = count+1, seconds+0.004
		d, news := w.look(count, seconds, 0)
		if news && (d.Slow || i < 3) {
			t.Errorf("after %d fast looks: %+v", i, d)
		}
		if news {
			return
		}
	}
	t.Error("it never is fast again")
}
