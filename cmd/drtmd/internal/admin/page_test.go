package admin

import (
	"context"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"drtmd/cmd/drtmd/internal/status"
	"drtmd/proto"
)

func TestPageEscapesWhatTheClusterSays(t *testing.T) {
	const evil = `"><script>alert(1)</script><img src=x onerror=alert(1)>`
	f := newFake()
	f.status.State.Cluster, f.status.Problem = evil, evil
	n := &f.status.Nodes[1]
	n.Member.Name, n.Reason, n.Device.Name, n.Load.Run, n.Load.Phase = evil, evil, evil, evil, evil
	n.Degraded, n.Admin = []string{evil}, evil
	n.Links[0].State = evil
	n.Events = append(n.Events, status.Event{Time: time.Now(), Level: evil, Text: evil})
	_, text := request(t, serve(t, optionsFor(f)), get("/"))
	if strings.Contains(text, "<script>") || strings.Contains(text, "<img") {
		t.Error("the page has an element that the cluster named")
	}
	if n := strings.Count(text, "&lt;script&gt;"); n < 9 {
		t.Errorf("%d places show the text, want 9 or more", n)
	}
}

func TestPageTellsEverythingWithoutItsScript(t *testing.T) {
	f := newFake()
	f.status.Problem = "node 2 is gone"
	f.status.Nodes[2].Phase, f.status.Nodes[2].Reason = status.Gone, "does not answer"
	f.status.Nodes[2].Load = nil
	f.status.Nodes[0].Degraded = []string{"records locked by node 2 stay locked"}
	_, text := request(t, serve(t, optionsFor(f)), get("/"))
	for _, want := range []string{"lab", "epoch 7", "3 members", "shard map 4", "lab-1", "lab-2",
		"✖ gone", "does not answer", "▶ running", "node 2 is gone", "run 3: measuring", "of 60.0 s",
		"0 to 1: up", "100 k of 400 k entries in use, 25.0 %", "1 worker of 16 fibers, on 1 thread",
		"3 partitions, shard map 4", "All figures are measured", "24.7 k committed/s",
		"4.2 of 5 s", "256.0 MiB", `href="http://127.0.0.1:7442/"`, `href="metrics"`, "records locked", "is a member of epoch 7",
		"Load it again to refresh"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	// The row of a node that is gone has nothing of what it had.
	_, row, _ := strings.Cut(text, "✖ gone")
	row, _, _ = strings.Cut(row, "</tr>")
	for _, stale := range []string{"MiB", " RC", "of 5 s", "rxe0"} {
		if strings.Contains(row, stale) {
			t.Errorf("the row of a node that is gone has %q: %s", stale, row)
		}
	}
}

func TestFactsWithoutPlaneAndByTransport(t *testing.T) {
	f := newFake()
	c := &f.status
	if text := nature(c); !strings.Contains(text, "carried out by the device") {
		t.Errorf("of ibv: %q", text)
	}
	for i := range c.Nodes {
		c.Nodes[i].Plane, c.Nodes[i].Load = nil, nil
		c.Nodes[i].Device.Transport = "shm"
	}
	if text := nature(c); !strings.Contains(text, "emulated on shared memory") {
		t.Errorf("of shm: %q", text)
	}
	if all := planeFacts(c); len(all) != 1 || !strings.HasPrefix(all[0].Value, "none: ") {
		t.Errorf("facts %v", all)
	}
	if text := runText(c); text != "" {
		t.Errorf("a run: %q", text)
	}
	// The plane is that of the node that answers, also if it is not the first.
	c.From = 1
	c.Nodes[0].Plane = &status.Plane{Protocol: "twopl"}
	c.Nodes[1].Plane = &status.Plane{Protocol: "drtm"}
	if all := planeFacts(c); all[1] != (fact{"protocol", "drtm"}) {
		t.Errorf("facts %v", all)
	}
}

func TestSharesOfCauses(t *testing.T) {
	got := sharesOf(map[string]uint64{"a": 1, "c": 9999, "b": 1})
	if len(got) != 3 || got[0].Cause != "c" || got[1].Cause != "a" || got[0].Bar != 100 ||
		percent(got[0].Percent) != "100.0 %" || percent(got[1].Percent) != "< 0.1 %" {
		t.Errorf("shares %+v", got)
	}
	if sharesOf(nil) != nil || percent(0) != "0.0 %" {
		t.Error("nothing has shares")
	}
}

func TestCountsAreShort(t *testing.T) {
	for x, want := range map[float64]string{0: "0", 7: "7", 0.5: "0.50", 99.5: "99.50", 1234: "1234",
		12_345: "12.3 k", 123_456: "123 k", 1_234_567: "1.23 M"} {
		if got := count(x); got != want {
			t.Errorf("%v is %q, want %q", x, got, want)
		}
	}
}

func TestEventsOfAllNodesAreInOrder(t *testing.T) {
	c := &status.Cluster{Nodes: make([]status.Node, 2)}
	at := time.Unix(1000, 0)
	for i := range 60 {
		n := &c.Nodes[i%2]
		n.Events = append(n.Events, status.Event{Time: at.Add(time.Duration(i)), Text: fmt.Sprint(i)})
	}
	list := lastEvents(c)
	if len(list) != shownEvents {
		t.Fatalf("%d events, want %d", len(list), shownEvents)
	}
	for i := 1; i < len(list); i++ {
		if list[i].Time.After(list[i-1].Time) {
			t.Fatalf("event %d is newer than the one before", i)
		}
	}
	// What a node says over and over stands there once.
	for i := range 30 {
		n := &c.Nodes[1]
		n.Events = append(n.Events, status.Event{Time: at.Add(time.Duration(100 + i)), Text: "again"})
	}
	if list = lastEvents(c); list[0].Times != 30 || list[1].Times != 1 || list[1].Text == "again" {
		t.Errorf("events begin with %+v", list[:2])
	}
}

// TestWorkersThatDoNotAnswerAreNoSampleOfZero: the next sample is of the time since the last one.
func TestWorkersThatDoNotAnswerAreNoSampleOfZero(t *testing.T) {
	f := newFake()
	s := &Server{o: optionsFor(f), ring: &ring{}}
	ctx, cancel := context.WithCancel(t.Context())
	s.look(ctx)
	f.change(func() { f.stuck = true })
	cancel()
	s.look(ctx) // ends at once, with an error
	f.change(func() { f.stuck = false })
	s.look(t.Context())
	list, _ := s.ring.copy()
	if len(list) != 2 || list[1].Committed == 0 {
		t.Errorf("samples %+v", list)
	}
}

func TestSamplesAreDifferencesWithinAPlane(t *testing.T) {
	r, at := &ring{}, time.Unix(1000, 0)
	m := emptyMetrics(1)
	look := func() sample {
		at = at.Add(time.Second)
		r.add(copyOf(m), at)
		list, _ := r.copy()
		return list[len(list)-1]
	}
	work(m, 5000)
	if x := look(); x.Committed != 0 || x.P50 != nil {
		t.Errorf("the first look says %+v", x)
	}
	work(m, 1000)
	x := look()
	if x.Committed != 2000 || x.Aborts != 625 {
		t.Errorf("%v committed and %v aborted, want 2000 and 625", x.Committed, x.Aborts)
	}
	if x.P50 == nil || *x.P50 < 20 || *x.P50 > 60 || *x.P99 < 5**x.P50 {
		t.Errorf("p50 %v, p99 %v", *x.P50, *x.P99)
	}
	// Only what came since counts, however much was before.
	for range 100 {
		if err := m.Life[0].RecordValue(9_000_000); err != nil {
			t.Fatal(err)
		}
	}
	if x = look(); x.P50 == nil || math.Abs(*x.P50-9000) > 9 {
		t.Errorf("p50 %v µs, want 9000", x.P50)
	}
	if x = look(); x.Committed != 0 || x.P50 != nil {
		t.Errorf("nothing was done, and it says %+v", x)
	}
	m = emptyMetrics(2)
	work(m, 10)
	if x = look(); x.Committed != 0 || x.Aborts != 0 || x.P50 != nil {
		t.Errorf("the first look at another plane says %+v", x)
	}
	if _, aborts := r.copy(); aborts[proto.ReasonLocked.String()] != 5 {
		t.Errorf("causes %v, want those of the new plane", aborts)
	}
	r.add(nil, at)
	if _, aborts := r.copy(); len(aborts) == 0 {
		t.Error("the causes are gone with the plane")
	}
}

func TestRingIsBounded(t *testing.T) {
	r, at := &ring{}, time.Unix(1000, 0)
	for i := range keptSamples + 10 {
		r.add(nil, at.Add(time.Duration(i)*time.Second))
	}
	list, _ := r.copy()
	if len(list) != keptSamples || !list[0].Time.Equal(at.Add(10*time.Second)) {
		t.Errorf("%d samples, the first of %v", len(list), list[0].Time)
	}
}

// luminance of a colour #rrggbb, as WCAG 2 defines it.
func luminance(t *testing.T, hex string) float64 {
	sum := 0.0
	for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
		n, err := strconv.ParseUint(hex[1+2*i:3+2*i], 16, 8)
		if err != nil {
			t.Fatal(err)
		}
		c := float64(n) / 255
		if c <= 0.04045 {
			c /= 12.92
		} else {
			c = math.Pow((c+0.055)/1.055, 2.4)
		}
		sum += weight * c
	}
	return sum
}

// Text and signs have the contrast of level AA, 4.5, on both backgrounds in both schemes.
func TestColoursHaveContrast(t *testing.T) {
	colour := regexp.MustCompile(`--(\w+): (#[0-9a-f]{6})`)
	blocks := regexp.MustCompile(`:root \{([^}]*)\}`).FindAllStringSubmatch(styleText, -1)
	if len(blocks) != 2 {
		t.Fatalf("%d schemes, want light and dark", len(blocks))
	}
	for i, b := range blocks {
		colours := map[string]string{}
		for _, m := range colour.FindAllStringSubmatch(b[1], -1) {
			colours[m[1]] = m[2]
		}
		for _, name := range []string{"fg", "soft", "a", "b", "ok", "warn", "bad"} {
			for _, ground := range []string{"bg", "card"} {
				x, y := luminance(t, colours[name]), luminance(t, colours[ground])
				if ratio := (max(x, y) + 0.05) / (min(x, y) + 0.05); ratio < 4.5 {
					t.Errorf("scheme %d: %s on %s has the contrast %.2f", i, name, ground, ratio)
				}
			}
		}
	}
}

// TestASampleIsOfWhenItsWorkersHaveCounted: a busy worker counts long after it was asked, or answers long after it has.
func TestASampleIsOfWhenItsWorkersHaveCounted(t *testing.T) {
	f := newFake()
	s := &Server{o: optionsFor(f), ring: &ring{}}
	f.late = time.Hour
	s.look(t.Context())
	f.late = 0
	s.look(t.Context())
	list, _ := s.ring.copy()
	if d := list[1].Time.Sub(list[0].Time); d < time.Hour {
		t.Errorf("samples are of %v and %v, an hour lies between", list[0].Time, list[1].Time)
	}
	if rate := list[1].Committed; rate <= 0 || rate > 1 {
		t.Errorf("%f commits a second, of some thousands in an hour", rate)
	}
}
