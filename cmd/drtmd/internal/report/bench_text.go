package report

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// WriteText prints the run for people.
func (b *Bench) WriteText(w io.Writer) error {
	var s strings.Builder
	fmt.Fprintf(&s, "workload  %s, %s\n", b.Workload, b.Settings)
	protocol := b.Protocol
	if b.Mutation != "" {
		protocol += ", with the deliberate bug " + b.Mutation
	}
	if b.Index != "" {
		protocol += ", index " + b.Index
	}
	fmt.Fprintf(&s, "protocol  %s\n", protocol)
	fmt.Fprintf(&s, "cluster   %s\n", b.cluster())
	fmt.Fprintf(&s, "machine   %s\n", b.Machine)
	fmt.Fprintf(&s, "run       %s, seed %d, %s\n\n", b.Date.UTC().Format(time.RFC3339), b.Seed,
		b.clock())
	if err := b.transactions().write(&s, ""); err != nil {
		return err
	}
	s.WriteString("\n")
	if len(b.Roles) > 0 {
		if err := b.roles().write(&s, ""); err != nil {
			return err
		}
		s.WriteString("\n")
	}
	if b.PerMinute != nil {
		s.WriteString(b.perMinuteText() + "\n")
	}
	b.writeAborts(&s)
	b.writePaths(&s)
	b.writeOrphans(&s)
	if r := b.Repairs; r != nil {
		fmt.Fprintf(&s, "repairs: %s met, %s of others finished and %d undone\n", count(int(r.Met), "expired lock"),
			count(int(r.Finished), "transaction"), r.Undone)
	}
	if b.Recovered != nil {
		s.WriteString(b.recoveredText() + "\n")
	}
	if b.Interrupted {
		s.WriteString("interrupted: the measurement is shorter than was asked for\n")
	}
	fmt.Fprintf(&s, "sums conserved: %s\n", answer(b.Conserved))
	if b.Audit != "" {
		fmt.Fprintf(&s, "replicas equal: %s\n", answer(b.Audit))
	}
	if v := b.Verified; v != nil && b.Conserved == "yes" {
		fmt.Fprintf(&s, "verified: %s (%s read)\n", v.What, count(int(v.Records), "record"))
	}
	if b.History != "" {
		fmt.Fprintf(&s, "history saved: %s\n", b.History)
	}
	if b.Check != nil {
		s.WriteString(CheckLine(b.Check) + "\n")
		for _, v := range b.Check.Violations {
			s.WriteString("\n" + strings.TrimRight(v.Text, "\n") + "\n")
		}
	}
	_, err := io.WriteString(w, s.String())
	return err
}

// answer puts NO before what is wrong.
func answer(s string) string {
	if s == "yes" || strings.HasPrefix(s, "unknown: ") {
		return s
	}
	return "NO: " + s
}

func (b *Bench) cluster() string {
	nodes := count(b.Nodes, "node")
	switch b.Memory {
	case "":
	case "own":
		if nodes = count(b.Nodes, "client") + " of a memory node of their own"; b.MemoryNodes > 1 {
			nodes = fmt.Sprintf("%s of %d memory nodes of their own", count(b.Nodes, "client"), b.MemoryNodes)
		}
	default:
		if nodes = count(b.Nodes, "client") + " of the memory node " + b.Memory; b.MemoryNodes > 1 {
			nodes = fmt.Sprintf("%s of the memory nodes %s", count(b.Nodes, "client"), b.Memory)
		}
	}
	s := fmt.Sprintf("%s, %s each, %s each, transport %s", nodes, count(b.Workers, "worker"), count(b.Fibers, "fiber"), b.Transport)
	if b.ClientNodes > 0 {
		s += fmt.Sprintf(", clients on %s", count(b.ClientNodes, "node"))
	}
	if b.Replicas > 1 {
		s += fmt.Sprintf(", %d replicas", b.Replicas)
	}
	if b.CostModel != "" {
		s += ", cost model " + b.CostModel
	} else {
		s += fmt.Sprintf(", device %s, %s in %s", b.Device, count(b.Threads, "thread"),
			count(b.Processes, "process"))
	}
	return s + ", " + b.AtomicScope
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	if strings.HasSuffix(what, "s") {
		what += "e"
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func (b *Bench) clock() string {
	elapsed := time.Duration(b.ElapsedNs).Round(time.Microsecond)
	s := fmt.Sprintf("%s measured after %s", elapsed, time.Duration(b.WarmupNs))
	if b.Virtual {
		s = fmt.Sprintf("%s of virtual time (%s real) measured after %s", elapsed,
			time.Duration(b.WallNs).Round(time.Millisecond), time.Duration(b.WarmupNs))
	}
	if b.SampleEvery > 0 {
		s += fmt.Sprintf(", latency of one in %d", b.SampleEvery)
	}
	if b.Recorded {
		s += ", history recorded"
	}
	return s
}

func (b *Bench) transactions() *table {
	t := newTable("transaction", ">committed/s", ">p50 [us]", ">p90 [us]", ">p99 [us]",
		">p99.9 [us]", ">samples", ">rolled back/s", ">aborts/commit", ">given up", ">unknown")
	for _, k := range append(append([]KindRow{}, b.Kinds...), b.All) {
		aborted := uint64(0)
		for _, a := range k.Aborts {
			aborted += a.Count
		}
		cells := []string{k.Name, fmt.Sprintf("%.0f", k.PerSecond)}
		if l := k.Latency; l != nil {
			cells = append(cells, micro(l.P50Ns), micro(l.P90Ns), micro(l.P99Ns), micro(l.P999Ns),
				fmt.Sprint(l.Samples))
		} else {
			cells = append(cells, "-", "-", "-", "-", "0")
		}
		t.row(append(cells,
			fmt.Sprintf("%.0f", perSecond(k.RolledBack, time.Duration(b.ElapsedNs))),
			rate(ratio(aborted, k.Committed), 4), fmt.Sprint(k.GivenUp),
			fmt.Sprint(k.Unknown))...)
	}
	return t
}

func (b *Bench) writeAborts(s *strings.Builder) {
	var parts []string
	for _, a := range b.All.Aborts {
		parts = append(parts, a.Reason+" "+rate(ratio(a.Count, b.All.Committed), 4))
	}
	if len(parts) == 0 {
		parts = []string{"none"}
	}
	fmt.Fprintf(s, "aborted attempts per committed transaction: %s\n", strings.Join(parts, ", "))
}

// recoveredText says which nodes were lost, and what became of what they held.
func (b *Bench) recoveredText() string {
	r := b.Recovered
	replicas := fmt.Sprintf("%s of each record again", count(r.Replicas, "replica"))
	if len(r.Short) > 0 {
		replicas = fmt.Sprintf("fewer than %s of each record in shards %v", count(r.Replicas, "complete replica"),
			r.Short)
	}
	return fmt.Sprintf("nodes lost: %d; the run went on: recovered within %v, %d of their transactions committed "+
		"and %d aborted; %s (%s copied, a replica in %v at most)\n  %s", len(r.Processes), r.Took.Round(10*time.Microsecond), r.Committed,
		r.Aborted, replicas, count(int(r.Filled), "record"), r.FillTook.Round(time.Millisecond), strings.Join(r.Processes, "\n  "))
}

// shownOrphans is how many records the text names; JSON has more.
const shownOrphans = 8

// writeOrphans names the records that stay locked.
func (b *Bench) writeOrphans(s *strings.Builder) {
	if b.Orphans != nil {
		s.WriteString(b.orphansText() + "\n")
	}
}

// orphansText is a line on each of the first records that stay locked.
func (b *Bench) orphansText() string {
	o := b.Orphans
	lines := []string{fmt.Sprintf("records that stay locked: %d", o.Count)}
	for _, x := range o.List[:min(len(o.List), shownOrphans)] {
		lines = append(lines, "  "+x.String())
	}
	if more := o.Count - min(len(o.List), shownOrphans); more > 0 {
		lines = append(lines, fmt.Sprintf("  and %d more", more))
	}
	return strings.Join(lines, "\n")
}

func (b *Bench) writePaths(s *strings.Builder) {
	fmt.Fprintf(s, "per attempt: %s on the fallback path, %.2f regions, %s waits for a lease\n",
		rate(b.Paths.Fallback, 4), b.Paths.Regions, rate(b.Paths.LeaseWaits, 4))
	var parts []string
	for _, v := range b.Verbs {
		parts = append(parts, fmt.Sprintf("%s %.3f", v.Opcode, v.PerCommitted))
	}
	if len(parts) == 0 {
		parts = []string{"none"}
	}
	fmt.Fprintf(s, "verbs per committed transaction: %s; %.1f B of payload\n",
		strings.Join(parts, ", "), b.Bytes)
	if b.Paths.Lookups > 0 {
		fmt.Fprintf(s, "remote lookups: %d, %.1f %% of them answered by the location cache\n",
			b.Paths.Lookups, 100*float64(b.Paths.CacheHits)/float64(b.Paths.Lookups))
	}
}
