package etcdmember

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// Disk is how long etcd's disk takes.
type Disk struct {
	Dir string
	// Slow tells whether it is; the other fields say by what.
	Slow bool
	// SyncNs is the mean of the log's fsyncs of late, WaitsNs how long etcd has waited for one that has
	// not ended; 0 if it is not waiting.
	SyncNs, WaitsNs int64
}

func (d Disk) String() string {
	how := fmt.Sprintf("an fsync of etcd's log takes %v", time.Duration(d.SyncNs).Round(time.Millisecond))
	if d.WaitsNs > 0 {
		how = fmt.Sprintf("etcd has waited for an fsync for %v",
			time.Duration(d.WaitsNs).Round(100*time.Millisecond))
	}
	return fmt.Sprintf("the disk of %s is slow: %s (a good one takes less than 10ms); members lose their "+
		"leases if it lasts: move node.state_dir to a faster disk, or use an external etcd", d.Dir, how)
}

const (
	diskLook = time.Second
	// slowSync is a mean of the log's fsyncs beyond which a disk is slow: a tenth of an election's time.
	slowSync = 100 * time.Millisecond
	// slowWait is how long proposals may wait without an fsync.
	slowWait = 1500 * time.Millisecond
	// fastLooks in a row after which a disk is slow no more; one with a fast fsync counts for several.
	fastLooks, fastSync = 30, 5
)

// watchDisk tells when the disk becomes slow, when that has changed much, and when it is over. It
// reads etcd's own metrics, of which a process has one set.
func watchDisk(ctx context.Context, dir string, tell func(Disk)) {
	w := diskWatch{dir: dir}
	tick := time.NewTicker(diskLook)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		families, err := prometheus.DefaultGatherer.Gather()
		if err != nil && len(families) == 0 {
			continue
		}
		count, seconds, pending := diskMetrics(families)
		if d, news := w.look(count, seconds, pending); news {
			tell(d)
		}
	}
}

// diskMetrics are the log's fsyncs, their time in all, and the proposals that wait.
func diskMetrics(families []*dto.MetricFamily) (count uint64, seconds, pending float64) {
	for _, f := range families {
		for _, m := range f.GetMetric() {
			switch f.GetName() {
			case "etcd_disk_wal_fsync_duration_seconds":
				count, seconds = m.GetHistogram().GetSampleCount(), m.GetHistogram().GetSampleSum()
			case "etcd_server_proposals_pending":
				pending = m.GetGauge().GetValue()
			}
		}
	}
	return count, seconds, pending
}

// diskWatch judges one look after the other, diskLook apart.
type diskWatch struct {
	dir     string
	count   uint64  // of fsyncs at the last look
	seconds float64 // that they took
	waits   time.Duration
	fast    int // looks since the last slow one
	told    Disk
}

// look takes what the metrics say, and gives what is to be told, if there is news.
func (w *diskWatch) look(count uint64, seconds, pending float64) (d Disk, news bool) {
	d.Dir = w.dir
	n := count - w.count
	if n > 0 {
		d.SyncNs = int64((seconds - w.seconds) / float64(n) * 1e9)
	}
	w.count, w.seconds = count, seconds
	if pending > 0 && n == 0 {
		w.waits += diskLook
	} else {
		w.waits = 0
	}
	if w.waits > slowWait {
		d.WaitsNs = int64(w.waits)
	}
	d.Slow = d.WaitsNs > 0 || d.SyncNs > int64(slowSync)
	switch {
	case d.Slow:
		w.fast = 0
		news = !w.told.Slow || d.SyncNs > 2*w.told.SyncNs || d.WaitsNs > 2*w.told.WaitsNs
	case n > 0:
		w.fast += fastSync
	case pending == 0:
		w.fast++
	}
	if w.told.Slow && w.fast >= fastLooks {
		news = true
	}
	if news {
		w.told = d
	}
	return d, news
}
