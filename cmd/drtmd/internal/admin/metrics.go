package admin

import (
	"context"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"drtmd/cmd/drtmd/internal/load"
	"drtmd/cmd/drtmd/internal/status"
	"drtmd/htm"
	"drtmd/proto"
	"drtmd/verbs"
	"drtmd/verbs/rpc"
)

// family is a metric with its labels.
type family struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
}

// families are all metrics of the daemon by short name; docs/METRICS.md lists them.
var familySpecs = []struct {
	name, help string
	kind       prometheus.ValueType
	labels     []string
}{
	{"build_info", "1, with the build.", prometheus.GaugeValue, []string{"build"}},
	{"ready", "1 while the node serves.", prometheus.GaugeValue, nil},
	{"alive", "1 while the daemon is alive.", prometheus.GaugeValue, nil},
	{"epoch", "Active epoch, as the node knows it.", prometheus.GaugeValue, nil},
	{"members", "Members of the active epoch.", prometheus.GaugeValue, nil},
	{"incarnation", "Incarnation of the node.", prometheus.GaugeValue, []string{"node"}},
	{"shard_map_version", "Version of the shard map that the data plane is of.", prometheus.GaugeValue, nil},
	{"membership_lease_left_seconds", "Time until the membership lease ends.", prometheus.GaugeValue, nil},
	{"certificate_expiry_timestamp_seconds", "When the node's certificate ends; absent without TLS.", prometheus.GaugeValue, nil},
	{"plane_generation", "Data planes that this process has opened: all counters of a plane begin anew with each.", prometheus.GaugeValue, nil},
	{"plane_info", "1, with what the data plane holds.", prometheus.GaugeValue, []string{"workload", "protocol"}},
	{"plane_fenced", "1 if the data plane was taken out of service.", prometheus.GaugeValue, nil},
	{"queue_pairs", "Queue pairs by type and state.", prometheus.GaugeValue, []string{"type"}},
	{"queue_pairs_in_error", "RC queue pairs in the error state.", prometheus.GaugeValue, nil},
	{"registered_memory_bytes", "Memory that is registered for tables.", prometheus.GaugeValue, nil},
	{"table_entries", "Entries of a table.", prometheus.GaugeValue, []string{"table"}},
	{"table_entries_used", "Entries that are bound to a key, absent ones included.", prometheus.GaugeValue, []string{"table"}},
	{"table_slots", "Slots of main buckets.", prometheus.GaugeValue, []string{"table"}},
	{"table_slots_used", "Slots of main buckets that are taken, links included.", prometheus.GaugeValue, []string{"table"}},
	{"table_indirect_buckets", "Indirect buckets of a table.", prometheus.GaugeValue, []string{"table"}},
	{"table_indirect_buckets_used", "Indirect buckets that are in a chain.", prometheus.GaugeValue, []string{"table"}},
	{"transactions_total", "Transactions by type and outcome.", prometheus.CounterValue, []string{"protocol", "type", "outcome"}},
	{"transaction_attempts_total", "Attempts of transactions by type.", prometheus.CounterValue, []string{"protocol", "type"}},
	{"aborted_attempts_total", "Aborted attempts by type and cause.", prometheus.CounterValue, []string{"protocol", "type", "cause"}},
	{"engine_fallbacks_total", "Attempts on the fallback path.", prometheus.CounterValue, []string{"protocol"}},
	{"lease_waits_total", "Waits for a read lease to expire.", prometheus.CounterValue, []string{"protocol"}},
	{"remote_lookups_total", "Look-ups of remote records.", prometheus.CounterValue, []string{"protocol"}},
	{"remote_lookups_cached_total", "Look-ups of remote records that the location cache answered.", prometheus.CounterValue, []string{"protocol"}},
	{"htm_regions_total", "Emulated hardware transactions begun.", prometheus.CounterValue, nil},
	{"htm_commits_total", "Emulated hardware transactions committed.", prometheus.CounterValue, nil},
	{"htm_aborts_total", "Emulated hardware transactions aborted, by cause.", prometheus.CounterValue, []string{"cause"}},
	{"verbs_requests_total", "Work requests posted, by opcode.", prometheus.CounterValue, []string{"opcode"}},
	{"verbs_payload_bytes_total", "Payload of work requests, in either direction.", prometheus.CounterValue, nil},
	{"verbs_doorbells_total", "Post calls.", prometheus.CounterValue, nil},
	{"verbs_completions_total", "Completions by status.", prometheus.CounterValue, []string{"status"}},
	{"cq_polls_total", "Polls of completion queues.", prometheus.CounterValue, nil},
	{"cq_empty_polls_total", "Polls that found no completion.", prometheus.CounterValue, nil},
	{"fiber_resumes_total", "Fibers resumed.", prometheus.CounterValue, nil},
	{"rpc_calls_total", "RPC calls started.", prometheus.CounterValue, nil},
	{"rpc_requests_total", "RPC requests executed for peers.", prometheus.CounterValue, nil},
	{"rpc_retransmissions_total", "RPC calls sent again after a timeout.", prometheus.CounterValue, nil},
	{"rpc_duplicates_total", "RPC messages that had been dealt with.", prometheus.CounterValue, nil},
	{"rpc_datagrams_total", "Datagrams by direction.", prometheus.CounterValue, []string{"direction"}},
	{"rpc_messages_total", "RPC messages by direction.", prometheus.CounterValue, []string{"direction"}},
	{"rpc_stalls_total", "Times that a window held messages back.", prometheus.CounterValue, nil},
	{"rpc_garbage_total", "Datagrams dropped, by reason.", prometheus.CounterValue, []string{"reason"}},
}

// latencyLabels are of the one histogram.
var latencyLabels = []string{"protocol", "type"}

const prefix = "drtmd_"

// collector asks the source when it is scraped.
type collector struct {
	o        Options
	families map[string]family
	latency  *prometheus.Desc
}

// newRegistry has the metrics of the daemon, of Go and of the process.
func newRegistry(o Options) *prometheus.Registry {
	c := &collector{o: o, families: map[string]family{}, latency: prometheus.NewDesc(
		prefix+"transaction_duration_seconds", "Latency of committed transactions, retries included, of "+
			"those that were measured, since the measurement began.", latencyLabels, nil)}
	for _, s := range familySpecs {
		c.families[s.name] = family{prometheus.NewDesc(prefix+s.name, s.help, s.labels, nil), s.kind}
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

func truth(ok bool) float64 {
	if ok {
		return 1
	}
	return 0
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout/2)
	defer cancel()
	s := sink{c, ch}
	s.send("build_info", 1, c.o.Build)
	s.send("alive", truth(c.o.Source.Alive() == nil))
	s.send("ready", truth(c.o.Source.Ready() == nil))
	if t := c.o.Source.CertificateExpires(); !t.IsZero() {
		s.send("certificate_expiry_timestamp_seconds", float64(t.Unix()))
	}
	if st, err := c.o.Source.Status(ctx, true); err == nil && len(st.Nodes) == 1 {
		s.membership(st, &st.Nodes[0])
	}
	m, err := c.o.Source.Metrics(ctx)
	if err != nil || m == nil {
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
	if n.Plane != nil {
		s.count("shard_map_version", uint64(n.Plane.Version))
	}
}

func (s sink) plane(m *load.Metrics) {
	s.count("plane_generation", m.Opened)
	s.send("plane_info", 1, m.Workload, m.Protocol)
	s.send("plane_fenced", truth(m.Fenced))
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
		if i+1 < len(m.Buckets) {
			s.latency(m, i+1, kind)
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

func (s sink) latency(m *load.Metrics, i int, kind string) {
	l := m.Latency[i]
	buckets := map[float64]uint64{}
	for _, b := range m.Buckets[i] {
		buckets[float64(b.AtMostNs)/float64(time.Second)] = b.Count
	}
	s.ch <- prometheus.MustNewConstHistogram(s.c.latency, uint64(l.Samples),
		l.MeanNs*float64(l.Samples)/float64(time.Second), buckets, m.Protocol, kind)
}

func (s sink) verbs(m *load.Metrics) {
	f := &m.Snapshot.Fiber
	for op, n := range f.Ops {
		if name := verbs.Opcode(op).String(); n > 0 || op == int(verbs.OpSend) {
			s.count("verbs_requests_total", n, name)
		}
	}
	s.count("verbs_payload_bytes_total", f.Bytes)
	s.count("verbs_doorbells_total", f.Doorbells)
	for code, n := range f.Statuses {
		if n > 0 || code == int(verbs.WCSuccess) {
			s.count("verbs_completions_total", n,
				strings.TrimPrefix(verbs.WCStatus(code).String(), "IBV_WC_"))
		}
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
	s.count("rpc_stalls_total", r.Stalls)
	for reason, n := range r.Garbage {
		s.count("rpc_garbage_total", n, rpc.Reason(reason).String())
	}
}
