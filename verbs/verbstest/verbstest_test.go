package verbstest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"drtmd/verbs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// recorder keeps what a case reports.
type recorder struct {
	mu   sync.Mutex
	errs []string
}

func (r *recorder) Error(args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.errs = append(r.errs, fmt.Sprint(args...))
}

func (r *recorder) Log(...any) {}

// play runs a body without any device and gives what it reported.
func play(limit time.Duration, body func(*Proc)) []string {
	env := Env{CaseLimit: limit, Patience: 50 * time.Millisecond,
		Open: func() (*verbs.Context, error) { return nil, errors.New("no device here") },
	}.withDefaults()
	r := &recorder{}
	w := &world{t: r, env: env, started: time.Now()}
	w.run(func(h Host) { newProc(env, h, Goroutines).run(body) })
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.errs
}

func TestFailuresOfACaseAreReported(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	for _, c := range []struct {
		name string
		body func(*Proc)
		want []string // parts of the reports, in order
	}{
		{"nothing", func(*Proc) {}, nil},
		{"Errorf goes on", func(p *Proc) { p.Errorf("one"); p.Errorf("two") },
			[]string{"one", "two"}},
		{"Fatalf ends", func(p *Proc) { p.Fatalf("one"); p.Errorf("two") }, []string{"one"}},
		{"a panic", func(*Proc) { panic("ouch") }, []string{"panic: ouch"}},
		{"Must", func(p *Proc) { p.Must("it", io.EOF) }, []string{"it: EOF"}},
		{"MustBe", func(p *Proc) { p.MustBe("it", nil, io.EOF) }, []string{"want EOF"}},
		{"no device", func(p *Proc) { p.Context() }, []string{"no device here"}},
		{"in a clean-up", func(p *Proc) {
			p.Cleanup(func() { p.Errorf("last") })
			p.Cleanup(func() { p.Fatalf("first") })
		}, []string{"first", "last"}},
		{"in a peer", func(p *Proc) {
			q := p.Peer()
			q.begin(request{Do: "nonsense"})
			q.finish()
		}, []string{`unknown request "nonsense"`, "the peer has ended"}},
		{"an unknown role", func(p *Proc) {
			id, err := p.host.Start("clown", false)
			p.Must("start", err)
			p.Must("end", p.host.End(id, p.Deadline()))
		}, []string{`unknown role "clown"`}},
		{"waiting in vain", func(p *Proc) { p.WaitFor("rain", func() bool { return false }) },
			[]string{"for rain"}},
		{"a hang", func(*Proc) { <-release }, []string{"did not end within"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := play(200*time.Millisecond, c.body)
			if len(got) != len(c.want) {
				t.Fatalf("reports %q, want %d", got, len(c.want))
			}
			for i, want := range c.want {
				if !strings.Contains(got[i], want) {
					t.Errorf("report %q does not say %q", got[i], want)
				}
			}
		})
	}
}

func TestCasesHaveNamesOfTheirOwn(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range Cases() {
		subject, what, ok := strings.Cut(c.Name, "/")
		if !ok || subject == "" || what == "" || strings.Contains(what, "/") {
			t.Errorf("%q is not subject/what", c.Name)
		}
		if seen[c.Name] {
			t.Errorf("two cases are named %q", c.Name)
		}
		seen[c.Name] = true
		if c.Body == nil || c.Alone && c.Apart {
			t.Errorf("%q has no body, or no placement", c.Name)
		}
	}
}

func TestRequired(t *testing.T) {
	for value, want := range map[string]bool{"": false, "ibv": true, "shm": false,
		"shm,ibv": true, "ibvx": false} {
		t.Setenv("DRTMD_REQUIRE", value)
		if Required("ibv") != want {
			t.Errorf("DRTMD_REQUIRE=%q: %v", value, !want)
		}
	}
}

func TestFrames(t *testing.T) {
	var b bytes.Buffer
	for _, payload := range []string{"", "x", strings.Repeat("long", 1000)} {
		if err := writeFrame(&b, frameMessage, []byte(payload)); err != nil {
			t.Fatal(err)
		}
		kind, got, err := readFrame(&b)
		if err != nil || kind != frameMessage || string(got) != payload {
			t.Fatalf("%c %q %v", kind, got, err)
		}
	}
	for name, in := range map[string][]byte{
		"cut head": {1, 0}, "cut payload": {9, 0, 0, 0, 'm', 1}, "too long": {255, 255, 255, 255, 'm'},
	} {
		if _, _, err := readFrame(bytes.NewReader(in)); err == nil {
			t.Errorf("%s was read", name)
		}
	}
}

func TestMailbox(t *testing.T) {
	m := newMailbox()
	soon := func() time.Time { return time.Now().Add(5 * time.Millisecond) }
	if _, err := m.take(soon()); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("an empty one: %v", err)
	}
	for _, s := range []string{"a", "b", "c"} {
		if err := m.put([]byte(s)); err != nil {
			t.Fatal(err)
		}
	}
	m.shut()
	m.shut()
	for _, want := range []string{"a", "b", "c"} { // what was put before the end is there
		if got, err := m.take(soon()); err != nil || string(got) != want {
			t.Fatalf("%q %v, want %q", got, err, want)
		}
	}
	if _, err := m.take(soon()); !errors.Is(err, errEnded) {
		t.Fatalf("an ended one: %v", err)
	}
	if err := m.put(nil); !errors.Is(err, errEnded) {
		t.Fatalf("put into an ended one: %v", err)
	}
}

func TestLeftoversAreSeen(t *testing.T) {
	before := descriptors()
	if left := leftovers(before); left != "" {
		t.Fatalf("nothing was left, but: %s", left)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	if left := leftovers(before); strings.Count(left, "left open: pipe") != 2 {
		t.Fatalf("two ends of a pipe were left: %q", left)
	}
	if err := errors.Join(r.Close(), w.Close()); err != nil {
		t.Fatal(err)
	}
	release := make(chan struct{})
	go func() { <-release }()
	if left := leftovers(before); !strings.Contains(left, "goroutine") {
		t.Fatalf("a goroutine was left: %q", left)
	}
	close(release)
}
