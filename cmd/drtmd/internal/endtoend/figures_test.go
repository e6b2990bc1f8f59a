package endtoend

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"drtmd/cmd/drtmd/internal/composition"
	"drtmd/cmd/drtmd/internal/report"
	"drtmd/cmd/drtmd/internal/status"
	"drtmd/proto/history"
	library "drtmd/proto/node"
	"drtmd/proto/option"
	"drtmd/store"
	"drtmd/verbs"
)

// monotonic is the clock that histories of one machine are on, but for its beginning.
func monotonic(t *testing.T) time.Duration {
	t.Helper()
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		t.Fatal(err)
	}
	return time.Duration(ts.Nano())
}

// page gets a page of a node's admin port.
func page(t *testing.T, n *node, path string) string {
	t.Helper()
	r, err := http.Get("http://" + n.admin + path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v", path, r.Status, err)
	}
	return string(b)
}

// metricSum sums up the values of a metric whose labels have all of some texts.
func metricSum(t *testing.T, text, name string, labels ...string) (sum float64) {
	t.Helper()
	found := false
lines:
	for _, l := range strings.Split(text, "\n") {
		series, value, ok := strings.Cut(l, " ")
		if base, _, _ := strings.Cut(series, "{"); !ok || base != name {
			continue
		}
		if i := strings.LastIndex(l, "} "); i >= 0 { // a label may have blanks
			series, value = l[:i], l[i+2:]
		}
		for _, want := range labels {
			if !strings.Contains(series, want) {
				continue lines
			}
		}
		x, err := strconv.ParseFloat(value, 64)
		if err != nil {
			t.Fatal(l)
		}
		sum, found = sum+x, true
	}
	if !found {
		t.Errorf("no metric %s %v", name, labels)
	}
	return sum
}

// glance is what a node showed at some moment between two readings of the clock.
type glance struct {
	before, after time.Duration
	committed     int                // by /metrics
	requests      map[string]float64 // the same: work requests by opcode
	posts         posts
	self          status.Node
}

// posts are what a node had posted and polled, by /metrics.
type posts struct{ requests, doorbells, completions, failed, datagramDoorbells, datagrams float64 }

// place is the node of the run, as the history numbers it: the partition that it held.
func (g *glance) place() string { return fmt.Sprint("node ", g.self.Plane.Partition) }

// liveView is what the page draws.
type liveView struct {
	Status  status.Cluster `json:"status"`
	Run     string         `json:"run"`
	Samples []struct {
		Time      time.Time `json:"time"`
		Committed float64   `json:"committed_per_s"`
	} `json:"samples"`
}

// counted is a history in the order of time.
type counted struct {
	t     *testing.T
	first time.Duration              // start of the first transaction
	ends  map[string][]time.Duration // of what, by its name
	took  []time.Duration            // of committed transactions
}

func readHistory(t *testing.T, file string) *counted {
	t.Helper()
	h, err := history.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	c := &counted{t: t, first: math.MaxInt64, ends: map[string][]time.Duration{}}
	kinds := h.Names().Kinds
	err = h.Each(func(r *history.Record) error {
		end := time.Duration(r.EndNs)
		c.first = min(c.first, time.Duration(r.StartNs))
		of := func(name string) { c.ends[name] = append(c.ends[name], end) }
		of(fmt.Sprint(r.Outcome))
		of(fmt.Sprint(r.Outcome, " ", kinds[r.Kind]))
		if r.Outcome == history.Committed {
			of(fmt.Sprint("node ", r.Node))
			c.took = append(c.took, end-time.Duration(r.StartNs))
		}
		return nil
	})
	if err == nil {
		err = h.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range c.ends {
		slices.Sort(list)
	}
	slices.Sort(c.took)
	return c
}

// until counts what has ended by a time.
func (c *counted) until(what string, at time.Duration) int {
	n, _ := slices.BinarySearch(c.ends[what], at)
	return n
}

// within checks a count of what ended between two times, each of which is known up to slack.
func (c *counted) within(figure, what string, got float64, from, to, slack time.Duration) {
	c.t.Helper()
	low := c.until(what, to-slack) - c.until(what, from+slack)
	high := c.until(what, to+slack) - c.until(what, from-slack)
	if got < 0.99*float64(low) || got > 1.01*float64(high)+1 {
		c.t.Errorf("%s is %.0f, the history counts %d to %d", figure, got, low, high)
	}
}

// TestEveryFigureIsCheckedAgainstAnIndependentCount in one run of daemons: what status, page, metrics
// and report say of transactions against the history's own count of them by time; of memory, files and
// threads against /proc; of tables and queue pairs against what the settings come to; of the cluster
// against the processes that were started.
func TestEveryFigureIsCheckedAgainstAnIndependentCount(t *testing.T) {
	t.Parallel()
	l := newLab(t, longLease...)
	begun := time.Now()
	l.cluster(3)
	file, doc := filepath.Join(l.dir, "run.hist"), filepath.Join(l.dir, "run.json")
	// On a busy machine too few looks may fall into a run: then a longer one is looked at.
	var c *counted
	var glances []glance
	var live liveView
	for measured := 4 * time.Second; ; measured *= 2 {
		glances, live = l.watched(measured, file, doc)
		c = readHistory(t, file)
		fewest := c.looks(glances)
		if fewest >= 8 || measured > 15*time.Second {
			break
		}
		t.Logf("%d looks at a node in a run of %v", fewest, measured)
	}
	run, err := report.ReadBench(doc)
	if err != nil {
		t.Fatal(err)
	}
	l.checkReport(c, run.Bench)
	warmup := time.Duration(0)
	for _, p := range run.Bench.Series {
		if p.At <= 0 {
			warmup += p.Span
		}
	}
	epoch := l.checkMetrics(c, glances)
	l.checkLoad(c, glances, epoch, warmup)
	l.checkVerbs(run.Bench, glances, epoch+c.first+warmup)
	l.checkPage(c, &live, epoch)
	l.checkProcesses(l.allReady(l.nodes[0], 3), begun)
	http.DefaultClient.CloseIdleConnections()
}

// watched looks at all nodes while they measure for so long.
func (l *lab) watched(measured time.Duration, file, doc string) (glances []glance, live liveView) {
	t := l.t
	t.Helper()
	// A warm-up that counts as much as the measurement shows where the two are mixed.
	b := l.beginning(l.nodes[0], "--warmup", "3s", "--duration", measured.String(), "--sample-every", "1",
		"--history", file, "--json", doc, "--check")
	for running := true; running; {
		select {
		case <-b.ended:
			running = false
		case <-time.After(150 * time.Millisecond):
			glances = append(glances, l.glances()...)
			var v liveView
			if err := json.Unmarshal([]byte(page(t, l.nodes[0], "/live.json")), &v); err != nil {
				t.Fatal(err)
			}
			if !slices.ContainsFunc(v.Status.Nodes, func(n status.Node) bool {
				return n.Load == nil || n.Load.Committed == 0
			}) {
				live = v
			}
		}
	}
	b.ends(0)
	return glances, live
}

// looks is how often the node that was looked at least was looked at during the run.
func (c *counted) looks(glances []glance) int {
	seen := map[string]int{}
	for _, g := range glances {
		if g.self.Load != nil && g.self.Plane != nil && g.committed > 0 && g.committed < len(c.ends[g.place()]) {
			seen[g.place()]++
		}
	}
	if len(seen) < 3 {
		return 0
	}
	return slices.Min(slices.Collect(maps.Values(seen)))
}

// glances looks at every node.
func (l *lab) glances() (all []glance) {
	l.t.Helper()
	for _, n := range l.nodes {
		g := glance{before: monotonic(l.t), committed: -1}
		if text := page(l.t, n, "/metrics"); strings.Contains(text, "drtmd_plane_up 1") &&
			strings.Contains(text, "drtmd_transactions_total{") {
			g.committed = int(metricSum(l.t, text, "drtmd_transactions_total", `outcome="committed"`))
			g.requests = map[string]float64{}
			for op := verbs.OpSend; op <= verbs.OpFAA; op++ {
				name := strings.ToLower(op.String())
				g.requests[name] = metricSum(l.t, text, "drtmd_verbs_requests_total", `"`+name+`"`)
			}
			g.posts = readPosts(l.t, text)
		}
		st := &status.Cluster{}
		if err := json.Unmarshal([]byte(page(l.t, n, "/status.json?self=1")), st); err != nil {
			l.t.Fatal(err)
		}
		g.self, g.after = st.Nodes[0], monotonic(l.t)
		all = append(all, g)
	}
	return all
}

func readPosts(t *testing.T, text string) (p posts) {
	t.Helper()
	p.requests = metricSum(t, text, "drtmd_verbs_requests_total")
	p.doorbells = metricSum(t, text, "drtmd_verbs_doorbells_total")
	p.completions = metricSum(t, text, "drtmd_verbs_completions_total")
	p.failed = p.completions - metricSum(t, text, "drtmd_verbs_completions_total", `"success"`)
	p.datagramDoorbells = metricSum(t, text, "drtmd_rpc_doorbells_total")
	p.datagrams = metricSum(t, text, "drtmd_rpc_datagrams_total", `"received"`)
	return p
}

// slack is how far the moments of looks at three nodes may lie apart on a busy machine.
const slack = 250 * time.Millisecond

// checkReport compares what the report counts with the history.
func (l *lab) checkReport(c *counted, b *report.Bench) {
	t := l.t
	t.Helper()
	from := c.first
	total := uint64(0)
	for _, p := range b.Series {
		if total += p.Committed; p.At <= 0 {
			from += p.Span
		}
	}
	to := from + time.Duration(b.ElapsedNs)
	if d := time.Duration(b.ElapsedNs - b.DurationNs); d < 0 || d > 3*time.Second { // on a busy machine
		t.Errorf("measured %v longer than asked for", d)
	}
	c.within("committed", "committed", float64(b.All.Committed), from, to, slack)
	c.within("committed/s", "committed", b.All.PerSecond*time.Duration(b.ElapsedNs).Seconds(), from, to,
		slack)
	c.within("all points of the series", "committed", float64(total), 0, to, slack)
	aborted := uint64(0)
	for _, k := range b.Kinds {
		c.within("committed "+k.Name, "committed "+k.Name, float64(k.Committed), from, to, slack)
		c.within("rolled back "+k.Name, "user-aborted "+k.Name, float64(k.RolledBack), from, to, slack)
		for _, a := range k.Aborts {
			aborted += a.Count
		}
	}
	c.within("aborted attempts", "aborted", float64(aborted), from, to, slack)
	latency := b.All.Latency
	if latency == nil || latency.Samples != int64(b.All.Committed) {
		t.Fatalf("latency %+v of %d transactions, each of which was sampled", latency, b.All.Committed)
	}
	// The history's are of attempts, the report's of transactions: most have one.
	if p50 := c.took[len(c.took)/2]; float64(latency.P50Ns) < 0.4*float64(p50) ||
		float64(latency.P50Ns) > 2.5*float64(p50) {
		t.Errorf("p50 is %d ns, the history's %d", latency.P50Ns, p50)
	}
	for _, v := range b.Verbs {
		if x := v.PerCommitted * float64(b.All.Committed); math.Abs(x-float64(v.Requests)) > 1 {
			t.Errorf("%s: %d requests, %f per committed transaction of %d", v.Opcode, v.Requests,
				v.PerCommitted, b.All.Committed)
		}
	}
}

// checkMetrics finds the beginning of the histories' clock: with it, whatever node n had counted at each
// look must be what the history of n says of that moment.
func (l *lab) checkMetrics(c *counted, glances []glance) (epoch time.Duration) {
	t := l.t
	t.Helper()
	low, high, used := time.Duration(math.MinInt64), time.Duration(math.MaxInt64), 0
	for _, g := range glances {
		if g.self.Load == nil || g.self.Plane == nil {
			continue
		}
		ends := c.ends[g.place()]
		if g.committed <= 0 || g.committed >= len(ends) {
			continue // before or after the run
		}
		used++
		low = max(low, g.before-ends[g.committed])
		high = min(high, g.after-ends[g.committed-1])
	}
	const fibers = 20 * time.Millisecond // between the end of a transaction and its count
	if used < 3 || low > high+2*fibers {
		t.Fatalf("%d looks at /metrics put the beginning of the run's clock between %v and %v", used, low,
			high)
	}
	return (low + high) / 2
}

// checkVerbs compares the requests that the report counts with what the looks at /metrics saw posted
// meanwhile, and doorbells and completions with each other. That a worker counts as the network does,
// doorbells and completions too, is TestVerbCountersAreTheNetworksOwn of package node. The measurement
// began at a time.
func (l *lab) checkVerbs(b *report.Bench, glances []glance, begun time.Duration) {
	t := l.t
	t.Helper()
	end := begun + time.Duration(b.ElapsedNs)
	inside := map[string][]glance{} // by node
	for _, g := range glances {
		if g.requests != nil && g.self.Plane != nil && g.before > begun+slack && g.after < end-slack {
			inside[g.place()] = append(inside[g.place()], g)
		}
	}
	counted := map[string]float64{}
	covered := time.Duration(math.MaxInt64)
	for _, list := range inside {
		first, last := list[0], list[len(list)-1]
		covered = min(covered, last.before-first.after)
		for op := range first.requests {
			counted[op] += last.requests[op] - first.requests[op]
		}
		checkPosts(t, &first.posts, &last.posts)
	}
	share := float64(covered) / float64(b.ElapsedNs)
	if len(inside) != 3 || share <= 0 {
		t.Fatalf("looks at %d nodes during the measurement, over %v of it", len(inside), covered)
	}
	reported := map[string]uint64{}
	for _, v := range b.Verbs {
		reported[strings.ToLower(v.Opcode)] = v.Requests
	}
	for op, n := range counted {
		// The rest of the time is like what was seen, if that is most of it.
		got, high := float64(reported[op]), n/share*1.5+100
		if got < n*0.99 || share > 0.5 && got > high {
			t.Errorf("%s: the report has %.0f requests; within %.0f %% of the time metrics saw %.0f", op, got,
				share*100, n)
		}
	}
	if counted["rdma_read"] == 0 || counted["rdma_write"] == 0 {
		t.Errorf("requests by opcode: %v", counted)
	}
}

// checkPosts compares what a node posted and polled between two looks: the last request of each doorbell
// has a completion, except that datagrams have one now and then and one where they arrive.
func checkPosts(t *testing.T, from, to *posts) {
	t.Helper()
	const inFlight = 64 // a completion belongs to a doorbell before the first look, or after the last one
	doorbells, requests := to.doorbells-from.doorbells, to.requests-from.requests
	datagrams := to.datagrams - from.datagrams
	sends := to.datagramDoorbells - from.datagramDoorbells
	completions := to.completions - from.completions
	if doorbells < 100 || doorbells > requests || to.failed > 0 ||
		completions < doorbells-sends+datagrams-inFlight || completions > doorbells+datagrams+inFlight {
		t.Errorf("%.0f requests with %.0f doorbells, %.0f of them for datagrams; %.0f datagrams came in; "+
			"%.0f completions, and %.0f of errors since the beginning", requests, doorbells, sends, datagrams,
			completions, to.failed)
	}
}

// checkLoad compares what status says of the run with the history.
func (l *lab) checkLoad(c *counted, glances []glance, epoch, warmup time.Duration) {
	t := l.t
	t.Helper()
	seen := map[string]int{}
	for _, g := range glances {
		x := g.self.Load
		if x == nil || g.self.Plane == nil || x.ElapsedS < 0.5 || x.ElapsedS >= x.OfS {
			continue
		}
		seen[x.Phase]++
		from, what, name := c.first, g.place(), g.self.Member.Name
		if x.Phase == "measuring" {
			from += warmup
		}
		low := c.until(what, g.before-epoch-slack) - c.until(what, from+slack)
		high := c.until(what, g.after-epoch+slack) - c.until(what, from-slack)
		if n := int(x.Committed); n < low || n > high {
			t.Errorf("%s, %s for %.2f s: status has %d committed, the history %d to %d", name, x.Phase,
				x.ElapsedS, n, low, high)
		}
		if rate := float64(x.Committed) / x.ElapsedS; math.Abs(rate-x.PerSecond) > rate/1000 {
			t.Errorf("%s: %d committed in %.3f s are not %.0f/s", name, x.Committed, x.ElapsedS,
				x.PerSecond)
		}
		if a := (g.after - epoch - from + slack).Seconds(); x.ElapsedS > a {
			t.Errorf("%s: %s for %.2f s, not more than %.2f passed", name, x.Phase, x.ElapsedS, a)
		}
	}
	if seen["measuring"] == 0 {
		t.Errorf("looks by phase: %v", seen)
	}
}

// checkPage compares the samples of the page with the history.
func (l *lab) checkPage(c *counted, v *liveView, epoch time.Duration) {
	t := l.t
	t.Helper()
	offset := time.Duration(time.Now().UnixNano()) - monotonic(t)
	clock := func(at time.Time) time.Duration { return time.Duration(at.UnixNano()) - offset - epoch }
	compared := 0
	for i := 1; i < len(v.Samples); i++ {
		from, to := clock(v.Samples[i-1].Time), clock(v.Samples[i].Time)
		if from < c.first+time.Second || to-from > 2*time.Second {
			continue
		}
		compared++
		c.within(fmt.Sprintf("sample %d of live.json", i), "node 0", v.Samples[i].Committed*
			(to-from).Seconds(), from, to, slack)
	}
	if compared == 0 {
		t.Errorf("%d samples, none within the run", len(v.Samples))
	}
	sum, rate := uint64(0), 0.0
	for _, n := range v.Status.Nodes {
		if n.Load != nil {
			sum, rate = sum+n.Load.Committed, rate+n.Load.PerSecond
		}
	}
	if len(v.Status.Nodes) != 3 || sum == 0 || rate == 0 || !strings.Contains(v.Run, "all nodes: ") {
		t.Errorf("the page's run is %q of %d nodes, %d committed, %.0f/s", v.Run, len(v.Status.Nodes), sum,
			rate)
	}
}

// checkProcesses compares what the nodes say of themselves with the system and with their settings.
func (l *lab) checkProcesses(st *status.Cluster, begun time.Time) {
	t := l.t
	t.Helper()
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	spec, err := composition.BuiltIn().Workload("smallbank")
	if err != nil {
		t.Fatal(err)
	}
	w, _, err := spec.Make(3, option.Settings{"accounts": "200"})
	if err != nil {
		t.Fatal(err)
	}
	bytes, err := library.TableBytes(w, new(library.Protocol), nil)
	if err != nil {
		t.Fatal(err)
	}
	text, _, _ := l.run("status", "--cluster", l.nodes[0].control)
	for i := range st.Nodes {
		n := &st.Nodes[i]
		at := slices.IndexFunc(l.nodes, func(p *node) bool { return p.name == n.Member.Name })
		if at < 0 {
			t.Fatalf("nobody started %s", n.Member.Name)
		}
		p := l.nodes[at]
		if n.PID != p.cmd.Process.Pid || n.Host != host ||
			n.Member.Control != p.control || n.Admin != p.admin || n.Member.Incarnation == 0 ||
			n.Started.Before(begun.Add(-time.Second)) || n.Started.After(time.Now()) ||
			n.Lease != quietLease.Seconds() || n.LeaseLeft > n.Lease || n.HoldsEtcd != (at == 0) {
			t.Errorf("of its own: %+v", n)
		}
		if n.QPs != (status.QPs{RC: 4, UD: 1}) || len(n.Links) != 2 || len(n.Tables) != len(w.Tables()) {
			t.Errorf("one worker, two peers, %d tables: %+v", len(w.Tables()), n)
		}
		for j, s := range w.Tables() {
			entries := store.For(uint16(s.ID), s.Name, s.ValueBytes, s.Capacity).Entries
			if x := n.Tables[j]; x.Name != s.Name || x.Entries != 200 || x.Capacity != uint64(entries) ||
				x.ValueBytes != s.ValueBytes {
				t.Errorf("table %+v, want 200 of %d entries of %d B", x, entries, s.ValueBytes)
			}
		}
		if n.Memory.RegisteredBytes != uint64(bytes) {
			t.Errorf("%d bytes are registered, the tables take %d", n.Memory.RegisteredBytes, bytes)
		}
		if row := status.MiB(uint64(bytes)) + " MiB reg."; strings.Count(text, row) != 3 {
			t.Errorf("no %q for each node in\n%s", row, text)
		}
		if html := page(t, p, "/"); strings.Count(html, status.MiB(uint64(bytes))+" MiB") < 3 {
			t.Errorf("the page has not %s MiB for each node", status.MiB(uint64(bytes)))
		}
		l.checkProcess(n, p, bytes)
	}
	if e := st.State.Active; len(e.Members) != 3 || len(st.State.Shards.Primary) != 3 || e.Epoch < 3 {
		t.Errorf("state %+v", st.State)
	}
}

// checkProcess compares metrics and status of a node with /proc.
func (l *lab) checkProcess(n *status.Node, p *node, registered int) {
	t := l.t
	t.Helper()
	m := page(t, p, "/metrics")
	proc := fmt.Sprintf("/proc/%d", n.PID)
	files, err := os.ReadDir(proc + "/fd")
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(proc + "/status")
	if err != nil {
		t.Fatal(err)
	}
	field := func(name string) float64 {
		_, rest, _ := strings.Cut(string(b), "\n"+name+":")
		x, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	resident := field("VmRSS") * 1024
	for _, x := range []struct {
		figure         string
		got, want, off float64
	}{
		{"resident memory by status", float64(n.Memory.ResidentBytes), resident, resident / 3},
		{"resident memory by metrics", metricSum(t, m, "process_resident_memory_bytes"), resident,
			resident / 3},
		{"open files by metrics", metricSum(t, m, "process_open_fds"), float64(len(files)), 10},
		{"threads by metrics", metricSum(t, m, "go_threads"), field("Threads"), 12},
		{"registered memory by metrics", metricSum(t, m, "drtmd_registered_memory_bytes"),
			float64(registered), 0},
		{"RC queue pairs by metrics", metricSum(t, m, "drtmd_queue_pairs", `"rc"`), 4, 0},
		{"UD queue pairs by metrics", metricSum(t, m, "drtmd_queue_pairs", `"ud"`), 1, 0},
		{"members by metrics", metricSum(t, m, "drtmd_members"), 3, 0},
		{"entries by metrics", metricSum(t, m, "drtmd_table_entries_used"), 200 * float64(len(n.Tables)), 0},
		{"workers by metrics", metricSum(t, m, "drtmd_workers"), 1, 0},
		{"ready by metrics", metricSum(t, m, "drtmd_ready"), 1, 0},
	} {
		if math.Abs(x.got-x.want) > x.off {
			t.Errorf("node %d: %s is %.0f, counted %.0f", n.Member.Node, x.figure, x.got, x.want)
		}
	}
}
