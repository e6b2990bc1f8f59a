package status

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// lastErrors is how many errors and warnings of each node are printed.
const lastErrors = 3

// WriteText prints the cluster for people.
func (c *Cluster) WriteText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "cluster    %s, epoch %d, %d members", c.State.Cluster, c.State.Active.Epoch,
		len(c.State.Active.Members))
	if p := c.State.Pending; p != nil {
		fmt.Fprintf(&b, ", epoch %d with %d members pending", p.Epoch, len(p.Members))
	}
	s := &c.State.Shards
	fmt.Fprintf(&b, "\nshard map  version %d, %d partitions", s.Version, len(s.Primary))
	if s.Run != "" {
		fmt.Fprintf(&b, ", of run %s, led by node %d", s.Run, s.Leader.Node)
	}
	if r := c.Replicas(); r != "" {
		fmt.Fprintf(&b, "\nreplicas   %s", r)
	}
	fmt.Fprintf(&b, "\nasked      node %d, %s\n\n", c.From, c.Date.Format(time.RFC3339))
	t := tabwriter.NewWriter(&b, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "node\tname\tphase\tincarnation\tepoch\tlease left\tdevice\tmemory\tQPs\tlinks\tcontrol\tadmin")
	for i := range c.Nodes {
		n := &c.Nodes[i]
		lease := "none"
		if n.LeaseLeft > 0 {
			lease = fmt.Sprintf("%.1f of %.0f s", n.LeaseLeft, n.Lease)
		}
		facts := []string{fmt.Sprint(n.Epoch), lease, n.deviceText(), n.memoryText(), n.qpText(),
			n.linkText(), n.Member.Control, OrNone(n.Admin)}
		if n.Phase == Gone {
			facts = []string{"-", "-", "-", "-", "-", "-", n.Member.Control, "-"} // what it had is over
		}
		fmt.Fprintf(t, "%d\t%s\t%s\t%d\t%s\n", n.Member.Node, n.Member.Name, n.Phase,
			n.Member.Incarnation, strings.Join(facts, "\t"))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for i := range c.Nodes {
		c.Nodes[i].details(&b)
	}
	if c.Problem != "" {
		fmt.Fprintf(&b, "\nPROBLEM    %s\n", c.Problem)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// OrNone is s, or the word none.
func OrNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

func (n *Node) deviceText() string {
	if n.Device.Name == "" {
		return "none"
	}
	return n.Device.Transport + "/" + n.Device.Name
}

func (n *Node) memoryText() string {
	return fmt.Sprintf("%s MiB reg., %s res.", MiB(n.Memory.RegisteredBytes),
		MiB(n.Memory.ResidentBytes))
}

// MiB writes a size, with one digit that is cut off, not rounded. The live page's script does the same:
// a size is one figure everywhere.
func MiB(bytes uint64) string {
	tenths := bytes / (1 << 20) * 10
	tenths += bytes % (1 << 20) * 10 / (1 << 20)
	return fmt.Sprintf("%d.%d", tenths/10, tenths%10)
}

func (n *Node) qpText() string {
	text := fmt.Sprintf("%d RC, %d UD", n.QPs.RC, n.QPs.UD)
	if n.QPs.InError > 0 {
		text += fmt.Sprintf(", %d in error", n.QPs.InError)
	}
	return text
}

func (n *Node) linkText() string {
	up := 0
	for _, l := range n.Links {
		if l.State == "up" {
			up++
		}
	}
	return fmt.Sprintf("%d/%d up", up, len(n.Links))
}

// shownOrphans is how many records a line names.
const shownOrphans = 3

// String names the first records.
func (o *Orphans) String() string {
	noun := "records stay"
	if o.Count == 1 {
		noun = "record stays"
	}
	s := fmt.Sprintf("%d %s locked:", o.Count, noun)
	for i, x := range o.List[:min(len(o.List), shownOrphans)] {
		if i > 0 {
			s += ";"
		}
		s += fmt.Sprintf(" table %s, key %d of partition %d, by partition %d", x.Table, x.Key, x.Node,
			x.Owner)
	}
	if more := o.Count - min(len(o.List), shownOrphans); more > 0 {
		s += fmt.Sprintf("; and %d more", more)
	}
	return s
}

// details prints what does not fit into a line.
func (n *Node) details(b *strings.Builder) {
	line := func(what, format string, args ...any) {
		fmt.Fprintf(b, "\nnode %-5d %-9s %s", n.Member.Node, what, fmt.Sprintf(format, args...))
	}
	if n.Reason != "" {
		line("because", "%s", n.Reason)
	}
	if c := n.CPUs; c != nil && c.List != "" {
		line("threads", "on CPUs %s: %s", c.List, c.Why)
	}
	if c := n.Clock; c != nil {
		line("clock", "%s", c)
	}
	if r := n.Recovery; r != nil {
		line("replicas", "%s", r)
	}
	if d := n.Data; d != nil {
		line("keeps", "%s", d)
	}
	if l := n.Logs; l != nil {
		line("logs", "%s", l)
	}
	if l := n.Load; l != nil {
		line("load", "run %s, %s %.1f of %.1f s, %d committed, %.0f committed/s, %.4f aborts/attempt",
			l.Run, l.Phase, l.ElapsedS, l.OfS, l.Committed, l.PerSecond, l.AbortRate)
	}
	if o := n.Orphans; o != nil {
		line("orphans", "%s", o)
	}
	for _, d := range n.Degraded {
		line("degraded", "%s", d)
	}
	if n.SlowDisk != "" {
		line("disk", "%s", n.SlowDisk)
	}
	var bad []Event
	for _, e := range n.Events {
		if e.Level != Info {
			bad = append(bad, e)
		}
	}
	for _, e := range bad[max(0, len(bad)-lastErrors):] {
		line(string(e.Level), "%s %s", e.Time.Local().Format("15:04:05"), e.Text)
	}
	if strings.HasSuffix(b.String(), "\n") {
		return
	}
	b.WriteByte('\n')
}
