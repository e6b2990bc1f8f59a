package report

import (
	"fmt"
	"io"
	"strings"
	"time"

	"drtmd/cmd/drtmd/internal/bench"
)

// PerfSchema of the JSON document.
const PerfSchema = "drtmd.perf/1"

// Perf is a run of drtmd perf with everything needed to understand its numbers.
type Perf struct {
	Schema      string    `json:"schema"`
	Date        time.Time `json:"date"` // UTC, of the start
	Machine     Machine   `json:"machine"`
	Command     []string  `json:"command"`
	Transport   string    `json:"transport"`
	Device      string    `json:"device"`
	Driver      string    `json:"driver"`
	AtomicScope string    `json:"atomic_scope"`
	ActiveMTU   int       `json:"active_mtu_bytes"`
	GIDIndex    int       `json:"gid_index"`
	GID         string    `json:"gid"`
	Peer        Peer      `json:"peer"`
	Iters       int       `json:"iterations,omitempty"`  // per measurement
	DurationNs  int64     `json:"duration_ns,omitempty"` // per measurement
	ClockCostNs float64   `json:"clock_reading_ns"`      // in each latency
	Interrupted bool      `json:"interrupted"`           // rows are missing
	Error       string    `json:"error,omitempty"`       // why rows are missing
	Rows        []Row     `json:"results"`
}

// Peer is the other side.
type Peer struct {
	SameProcess bool   `json:"same_process"`
	Address     string `json:"address,omitempty"`
	Device      string `json:"device"`
	Driver      string `json:"driver"`
}

// Row is one case.
type Row struct {
	Op      string      `json:"operation"`
	Size    int         `json:"size_bytes"`
	Inline  bool        `json:"inline"`
	Latency *LatencyRow `json:"latency,omitempty"`
	Rate    *RateRow    `json:"rate,omitempty"`
}

// LatencyRow are times of one operation.
type LatencyRow struct {
	Kind     string `json:"kind"`
	Samples  int64  `json:"samples"`
	Lost     int64  `json:"lost_datagrams"`
	MinNs    int64  `json:"min_ns"`
	MeanNs   int64  `json:"mean_ns"`
	MedianNs int64  `json:"median_ns"`
	P99Ns    int64  `json:"p99_ns"`
	P999Ns   int64  `json:"p99_9_ns"`
	MaxNs    int64  `json:"max_ns"`
}

// RateRow is the throughput with many operations outstanding.
type RateRow struct {
	PerSecond      float64 `json:"messages_per_s"`
	BytesPerSecond float64 `json:"payload_bytes_per_s"`
	Messages       uint64  `json:"messages"`
	Lost           uint64  `json:"lost_datagrams"`
	ElapsedNs      int64   `json:"elapsed_ns"`
	Depth          int     `json:"depth_requests"`
	Batch          int     `json:"batch_requests"`
}

// NewRow turns a measured row into one of the report.
func NewRow(r bench.Result) Row {
	row := Row{Op: r.Case.Op.String(), Size: r.Case.Size, Inline: r.Inline}
	if l := r.Latency; l != nil {
		row.Latency = &LatencyRow{Kind: l.Kind.String(), Samples: l.Samples, Lost: l.Lost,
			MinNs: l.Min, MeanNs: l.Mean, MedianNs: l.Median, P99Ns: l.P99, P999Ns: l.P999,
			MaxNs: l.Max}
	}
	if t := r.Rate; t != nil {
		row.Rate = &RateRow{PerSecond: t.PerSecond, BytesPerSecond: t.BytesPerSecond,
			Messages: t.Messages, Lost: t.Lost, ElapsedNs: t.ElapsedNs, Depth: t.Depth,
			Batch: t.Batch}
	}
	return row
}

// WriteJSON prints the run for programs.
func (p *Perf) WriteJSON(w io.Writer) error {
	p.Schema = PerfSchema
	if p.Rows == nil {
		p.Rows = []Row{}
	}
	return writeJSON(w, p)
}

// WriteText prints the run for people.
func (p *Perf) WriteText(w io.Writer) error {
	var b strings.Builder
	peer := "both sides in this process"
	if !p.Peer.SameProcess {
		peer = fmt.Sprintf("peer %s with %s (driver %s)", p.Peer.Address, p.Peer.Device,
			p.Peer.Driver)
	}
	fmt.Fprintf(&b, "device    %s, transport %s, driver %s, %s, active MTU %d B, GID %d %s\n",
		p.Device, p.Transport, p.Driver, p.AtomicScope, p.ActiveMTU, p.GIDIndex, p.GID)
	fmt.Fprintf(&b, "sides     %s\n", peer)
	fmt.Fprintf(&b, "machine   %s\n", p.Machine)
	fmt.Fprintf(&b, "run       %s, %s, one clock reading %.0f ns (part of each latency)\n\n",
		p.Date.UTC().Format(time.RFC3339), p.budget(), p.ClockCostNs)
	t := newTable("operation", ">size [B]", ">median [us]", ">99 % [us]", ">99.9 % [us]",
		">samples", "latency is", ">rate [msg/s]", ">payload [MB/s]", "notes")
	for _, r := range p.Rows {
		t.row(r.cells()...)
	}
	if err := t.write(&b, ""); err != nil {
		return err
	}
	if p.Interrupted {
		b.WriteString("interrupted: rows are missing\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (p *Perf) budget() string {
	var s []string
	if p.Iters > 0 {
		s = append(s, fmt.Sprintf("%d operations", p.Iters))
	}
	if p.DurationNs > 0 {
		s = append(s, time.Duration(p.DurationNs).String())
	}
	text := strings.Join(s, " or ") + " per measurement"
	for _, r := range p.Rows {
		if r.Rate != nil {
			return text + fmt.Sprintf(", rate with %d requests outstanding in batches of %d",
				r.Rate.Depth, r.Rate.Batch)
		}
	}
	return text
}

func (r *Row) cells() []string {
	cells := []string{r.Op, fmt.Sprint(r.Size)}
	lost := uint64(0)
	if l := r.Latency; l != nil {
		cells = append(cells, micro(l.MedianNs), micro(l.P99Ns), micro(l.P999Ns),
			fmt.Sprint(l.Samples), l.Kind)
		lost += uint64(l.Lost)
	} else {
		cells = append(cells, "-", "-", "-", "-", "-")
	}
	if t := r.Rate; t != nil {
		cells = append(cells, fmt.Sprintf("%.0f", t.PerSecond),
			fmt.Sprintf("%.1f", t.BytesPerSecond/1e6))
		lost += t.Lost
	} else {
		cells = append(cells, "-", "-")
	}
	var notes []string
	if r.Inline {
		notes = append(notes, "inline")
	}
	if lost > 0 {
		notes = append(notes, fmt.Sprintf("%d datagrams lost", lost))
	}
	return append(cells, strings.Join(notes, ", "))
}

// micro prints nanoseconds as microseconds with the three digits that the histogram keeps.
func micro(ns int64) string { return fmt.Sprintf("%.2f", float64(ns)/1e3) }
