package admin

import (
	"context"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"drtmd/cmd/drtmd/internal/load"
	"drtmd/cmd/drtmd/internal/status"
	"drtmd/htm"
	"drtmd/proto"
	"drtmd/verbs"
	"drtmd/verbs/rpc"
)

// family is a metric with its kind.
type family struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
}

// collector asks the source when it is scraped.
type collector struct {
	o        Options
	families map[string]family
	latency  *prometheus.Desc
}

// newRegistry has the metrics of the daemon, of Go and of the process.
func newRegistry(o Options) *prometheus.Registry {
	l := latencySpec()
	c := &collector{o: o, families: map[string]family{},
		latency: prometheus.NewDesc(prefix+l.name, l.help, l.labels, nil)}
	for _, x := range specs() {
		c.families[x.name] = family{prometheus.NewDesc(prefix+x.name, x.help, x.labels, nil), x.kind}
	}
	r := prometheus.NewRegistry()
	r.MustRegister(c, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, f := range c.families {
		ch <- f.desc
	}
	ch <- c.latency
}

// sink sends values.
type sink struct {
	c  *collector
	ch chan<- prometheus.Metric
}

func (s sink) send(name string, v float64, labels ...string) {
	f := s.c.families[name]
	s.ch <- prometheus.MustNewConstMetric(f.desc, f.kind, v, labels...)
}

func (s sink) count(name string, n uint64, labels ...string) { s.send(name, float64(n), labels...) }

func oneIf(ok bool) float64 {
	if ok {
		return 1
	}
	return 0
}

// Collect implements prometheus.Collector. What a worker does not say within half of the scrape's
// time is left out of it.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout/2)
	defer cancel()
	s := sink{c, ch}
	s.send("build_info", 1, c.o.Build)
	s.send("ready", oneIf(c.o.Source.Ready() == nil))
	if t := c.o.Source.CertificateExpires(); !t.IsZero() {
		s.send("certificate_expiry_timestamp_seconds", float64(t.Unix()))
	}
	if st, err := c.o.Source.Status(ctx, true); err == nil && len(st.Nodes) == 1 {
		s.membership(st, &st.Nodes[0])
	}
	m, err := c.o.Source.Metrics(ctx)
	up := err == nil && m != nil
	s.send("plane_up", oneIf(up))
	if !up {
		return
	}
	s.plane(m)
	s.transactions(m)
	s.verbs(m)
	s.rpc(&m.RPC)
}

func (s sink) membership(st *status.Cluster, n *status.Node) {
	s.count("epoch", uint64(st.State.Active.Epoch))
	s.count("members", uint64(len(st.State.Active.Members)))
	s.count("incarnation", uint64(n.Member.Incarnation), n.Member.Name)
	s.send("membership_lease_left_seconds", n.LeaseLeft)
	s.send("membership_lease_seconds", n.Lease)
	s.count("location_cache_bytes", n.Memory.CacheBytes)
	if n.Plane != nil {
		s.count("shard_map_version", uint64(n.Plane.Version))
	}
	if r := n.Recovery; r != nil {
		s.recovery(r)
	}
	if d := n.Data; d != nil {
		s.send("data_runs", float64(d.Runs))
	}
	if c := n.Clock; c != nil {
		s.send("clock_error_seconds", c.Error)
		if c.Lease > 0 {
			s.send("read_lease_seconds", c.Lease, "that write")
			s.send("read_lease_seconds", c.LeaseReadOnly, "read-only")
		}
	}
}

func (s sink) recovery(r *status.Recovery) {
	s.send("replicas", float64(len(r.Serves)), "primary")
	s.send("replicas", float64(len(r.Backs)), "backup")
	s.send("replicas", float64(len(r.Fills)), "filling")
	s.send("recovery_running", oneIf(r.Running))
	s.send("recovery_failed", oneIf(r.Error != ""))
	s.send("recovery_seconds", r.TookS)
	s.send("recovery_undecided_transactions", float64(r.Undecided))
	s.count("recovered_transactions_total", r.Committed, "committed")
	s.count("recovered_transactions_total", r.Aborted, "aborted")
	s.count("filled_records_total", r.Filled)
}

func (s sink) logs(m *load.Metrics) {
	l := &m.Logs
	s.count("log_bytes", l.Bytes)
	s.count("log_used_bytes", l.Used)
	s.send("log_slots", float64(l.Slots))
	s.send("log_slots_taken", float64(l.Taken))
	s.count("log_records_total", l.Records)
	s.count("log_waits_total", l.Waits)
	s.count("log_too_long_total", l.TooLong)
	s.send("log_recovery_seconds", m.Restored.Seconds())
	s.count("log_recovery_records", l.Found, "found")
	s.count("log_recovery_records", l.Torn, "torn")
	s.count("log_recovery_transactions", l.Completed, "completed")
	s.count("log_recovery_transactions", l.Undone, "undone")
	s.count("log_recovery_transactions", l.Resumed, "resumed")
	s.send("log_recovery_transactions", float64(l.Recovering), "unfinished")
}

func (s sink) plane(m *load.Metrics) {
	s.count("plane_generation", m.Opened)
	s.send("plane_info", 1, m.Workload, m.Protocol)
	s.send("plane_fenced", oneIf(m.Fenced))
	s.send("workers", float64(m.Workers))
	s.send("orphaned_records", float64(m.Orphans.Count))
	s.send("troubled_workers", float64(m.Troubled))
	if m.Logs.Bytes > 0 {
		s.logs(m)
	}
	s.send("queue_pairs", float64(m.QPs.RC), "rc")
	s.send("queue_pairs", float64(m.QPs.UD), "ud")
	s.send("queue_pairs_in_error", float64(m.QPs.InError))
	s.count("registered_memory_bytes", m.Registered)
	for _, t := range m.Tables {
		for name, v := range map[string]int{"table_entries": t.Entries, "table_entries_used": t.Bound,
			"table_slots": t.MainSlots, "table_slots_used": t.MainTaken,
			"table_indirect_buckets": t.IndirectBuckets, "table_indirect_buckets_used": t.Chained} {
			s.send(name, float64(v), t.Name)
		}
	}
}

func (s sink) transactions(m *load.Metrics) {
	e := &m.Snapshot.Engine
	for i, kind := range m.Kinds {
		k := &m.Snapshot.Counts.Kinds[i+1]
		for o := proto.Committed; o < proto.OutcomeEnd; o++ {
			s.count("transactions_total", k.Outcomes[o], m.Protocol, kind, o.String())
		}
		s.count("transaction_attempts_total", k.Attempts, m.Protocol, kind)
		for r := proto.Reason(1); r < proto.ReasonEnd; r++ {
			s.count("aborted_attempts_total", k.Aborts[r], m.Protocol, kind, r.String())
		}
		if i+1 < len(m.Life) {
			s.latency(m.Life[i+1], m.Protocol, kind)
		}
	}
	s.count("engine_fallbacks_total", e.Fallbacks, m.Protocol)
	s.count("lease_waits_total", e.LeaseWaits, m.Protocol)
	s.count("remote_lookups_total", e.Lookups, m.Protocol)
	s.count("remote_lookups_cached_total", e.CacheHits, m.Protocol)
	s.count("htm_regions_total", m.HTM.Begun)
	s.count("htm_commits_total", m.HTM.Committed)
	for code := htm.Code(1); code < htm.CodeEnd; code++ {
		s.count("htm_aborts_total", m.HTM.Aborts[code], code.String())
	}
}

// boundsNs are those of the histogram's buckets: two for each power of ten, from 100 ns, a local
// transaction, to 10 s, a fault.
var boundsNs = [...]int64{100, 316, 1_000, 3_160, 10_000, 31_600, 100_000, 316_000, 1_000_000,
	3_160_000, 10_000_000, 31_600_000, 100_000_000, 316_000_000, 1_000_000_000, 3_160_000_000,
	10_000_000_000}

// latency sends a histogram in wider buckets. A value counts where the upper end of its own narrow
// bucket is, at most one part in a thousand above it.
func (s sink) latency(h *hdrhistogram.Histogram, protocol, kind string) {
	buckets := make(map[float64]uint64, len(boundsNs))
	bars := h.Distribution()
	n, next := uint64(0), 0
	sumNs := 0.0
	for _, bound := range boundsNs {
		for ; next < len(bars) && bars[next].To <= bound; next++ {
			n += uint64(bars[next].Count)
		}
		buckets[float64(bound)/float64(time.Second)] = n
	}
	for _, b := range bars {
		sumNs += float64(b.Count) * float64(b.From+b.To) / 2
	}
	s.ch <- prometheus.MustNewConstHistogram(s.c.latency, uint64(h.TotalCount()),
		sumNs/float64(time.Second), buckets, protocol, kind)
}

func (s sink) verbs(m *load.Metrics) {
	f := &m.Snapshot.Fiber
	for op := verbs.OpSend; op < verbs.OpRecv; op++ { // receives are not counted
		s.count("verbs_requests_total", f.Ops[op], strings.ToLower(op.String()))
	}
	s.count("verbs_payload_bytes_total", f.Bytes)
	s.count("verbs_doorbells_total", f.Doorbells)
	for code, n := range f.Statuses {
		s.count("verbs_completions_total", n,
			strings.ToLower(strings.TrimPrefix(verbs.WCStatus(code).String(), "IBV_WC_")))
	}
	s.count("cq_polls_total", f.Polls)
	s.count("cq_empty_polls_total", f.EmptyPolls)
	s.count("fiber_resumes_total", f.Resumes)
}

func (s sink) rpc(r *rpc.Stats) {
	s.count("rpc_calls_total", r.Calls)
	s.count("rpc_requests_total", r.Requests)
	s.count("rpc_retransmissions_total", r.Retransmissions)
	s.count("rpc_duplicates_total", r.Duplicates)
	s.count("rpc_datagrams_total", r.DatagramsSent, "sent")
	s.count("rpc_datagrams_total", r.DatagramsReceived, "received")
	s.count("rpc_messages_total", r.MessagesSent, "sent")
	s.count("rpc_messages_total", r.MessagesReceived, "received")
	s.count("rpc_acks_total", r.AcksSent)
	s.count("rpc_doorbells_total", r.Doorbells)
	s.count("rpc_stalls_total", r.Stalls)
	s.count("rpc_reclaimed_datagrams_total", r.Reclaimed)
	s.count("rpc_resets_total", r.Resets)
	s.count("rpc_evicted_sessions_total", r.Evicted)
	for reason, n := range r.Garbage {
		s.count("rpc_garbage_total", n, rpc.Reason(reason).String())
	}
}
