package daemon

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"drtmd/cmd/drtmd/internal/control"
	"drtmd/cmd/drtmd/internal/load"
	"drtmd/cmd/drtmd/internal/transport"
	"drtmd/proto/member"
	"drtmd/proto/node"
	"drtmd/verbs"
)

// tap is the control plane of a daemon with an ear: it keeps the descriptors of every member that a
// leader sends. Steps may come at any time, as long as the daemon lives: under load a node may lose its
// lease, and a plane is built again.
type tap struct {
	*Daemon
	mu    sync.Mutex // guards what follows
	heard heard
}

// heard is what a tap has kept.
type heard struct {
	descriptors []node.Descriptor
	raw         []string // the same as they travel
}

func (p *tap) Do(ctx context.Context, v member.ShardVersion, request []byte) ([]byte, error) {
	p.hear(request)
	return p.Daemon.Do(ctx, v, request)
}

// hear keeps what is in a step.
func (p *tap) hear(request []byte) {
	var r load.Request
	if json.Unmarshal(request, &r) != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, b := range r.All {
		var d node.Descriptor
		if d.UnmarshalBinary(b) == nil {
			p.heard.descriptors = append(p.heard.descriptors, d)
			p.heard.raw = append(p.heard.raw, base64.StdEncoding.EncodeToString(b))
		}
	}
}

// soFar is what was heard until now. The caller owns it.
func (p *tap) soFar() heard {
	p.mu.Lock()
	defer p.mu.Unlock()
	return heard{slices.Clone(p.heard.descriptors), slices.Clone(p.heard.raw)}
}

// secrets are the rkeys and queue keys, by name.
func (h *heard) secrets() map[string]uint32 {
	all := map[string]uint32{}
	for i, d := range h.descriptors {
		all[fmt.Sprintf("rkey %d of node %d", i, d.Node)] = d.Shares[0].Memory.RKey
		for _, w := range d.Workers {
			all[fmt.Sprintf("queue key %d of node %d", i, d.Node)] = w.Port.QKey
		}
	}
	return all
}

// listen serves the control plane of a daemon a second time, through the tap.
func (p *tap) listen(t *testing.T, address string) {
	t.Helper()
	l, err := control.Listen(address, nil, false)
	if err != nil {
		t.Fatal(err)
	}
	s := control.NewServer(control.Options{Backend: p, Build: testBuild, Log: zap.NewNop(),
		Limits: control.Limits{MaxConnections: 16, MaxMessage: 1 << 20, RatePerPeer: 1000}})
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		s.Stop(ctx)
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// worn devices have had many regions: the next one's rkey is a number that stands for nothing else.
type worn struct{ verbs.Provider }

func (p worn) Open(name string) (*verbs.Context, error) {
	c, err := p.Provider.Open(name)
	if err != nil {
		return nil, err
	}
	pd, err := c.AllocPD()
	for i := 0; i < 777 && err == nil; i++ {
		var mr *verbs.MR
		if mr, err = pd.AllocMR(64, verbs.AccessAll, verbs.MROptions{NoHuge: true}); err == nil {
			err = mr.Close()
		}
	}
	if err == nil {
		err = pd.Close()
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// TestATapIsReadWhileStepsCome: a race would be the test's own, and be told of tests that run beside it.
func TestATapIsReadWhileStepsCome(t *testing.T) {
	t.Parallel()
	d := node.Descriptor{Shares: []node.ShareDescriptor{{}}}
	b, err := d.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	step, err := json.Marshal(&load.Request{Step: load.StepConnect, All: [][]byte{b, b}})
	if err != nil {
		t.Fatal(err)
	}
	p, done := &tap{}, make(chan struct{})
	const steps = 100
	go func() {
		defer close(done)
		for range steps {
			p.hear(step)
		}
	}()
	for end := false; !end; {
		select {
		case <-done:
			end = true
		default:
		}
		told := p.soFar()
		for i, raw := range told.raw {
			if raw == "" || told.descriptors[i].Node != d.Node {
				t.Fatalf("entry %d of %d was not heard in whole", i, len(told.raw))
			}
		}
	}
	if told := p.soFar(); len(told.raw) != 2*steps {
		t.Errorf("heard %d descriptors, want %d", len(told.raw), 2*steps)
	}
}

// TestKeysAreNowhereToBeRead: whoever has an rkey or a queue key has the memory. No log, at the most
// talkative level, and nothing that a daemon shows has one, as a decimal or hexadecimal number.
func TestKeysAreNowhereToBeRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	shm, err := transport.New(transport.Default,
		transport.Options{RunDir: filepath.Join(w.dir, "shm")})
	if err != nil {
		t.Fatal(err)
	}
	w.provider = worn{shm}
	log := &lines{}
	core := zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()),
		zapcore.AddSync(log), zap.DebugLevel))
	ear := &tap{}
	for i := range 2 {
		n := w.add()
		n.log, n.cfg.Admin.Listen, n.cfg.Log.Level = core, "127.0.0.1:0", "debug"
		if i == 1 {
			n.cfg.Control.Advertise = "unix:" + filepath.Join(w.dir, "tap.sock")
			n.prepare = func(d *Daemon) {
				ear.Daemon = d
				ear.listen(t, n.cfg.Control.Advertise)
			}
		}
		n.start()
	}
	w.settled(w.nodes...)
	o := w.nodes[0].mustRun(bench(100 * time.Millisecond))
	w.settled(w.nodes...)
	shown := map[string]string{"result": string(o.done.ResultJson), "notices": fmt.Sprint(o.notices)}
	for _, n := range w.nodes {
		for _, path := range []string{"/", "/metrics", "/status.json", "/readyz", "/healthz"} {
			shown[n.cfg.Node.Name+path] = fetch(t, "http://"+n.self().Admin+path)
		}
		st, err := n.client.Status(t.Context(), false)
		if err != nil {
			t.Fatal(err)
		}
		var text bytes.Buffer
		if err := st.WriteText(&text); err != nil {
			t.Fatal(err)
		}
		shown[n.cfg.Node.Name+" status"] = text.String()
		shown[n.cfg.Node.Name+" output"] = n.out.String()
	}
	gone := w.nodes[1].remove(w.nodes[0]) // errors are shown as well
	w.until("it has come back", func() bool {
		s := w.nodes[1].self()
		return s != nil && s.Member.Incarnation > gone.Incarnation
	}, func() any { return nil })
	w.settled(w.nodes...)
	shown["log"] = log.String()
	told := ear.soFar()
	secrets := told.secrets()
	if len(secrets) < 8 || len(shown["log"]) < 1000 || !strings.Contains(shown["log"], "ready: ") {
		t.Fatalf("%d keys, %d bytes of log: too few to mean anything", len(secrets),
			len(shown["log"]))
	}
	for name, key := range secrets {
		if key < 1<<20 {
			t.Fatalf("%s is %d, which may stand for something else", name, key)
		}
	}
	for what, text := range shown {
		for _, found := range keysIn(text, secrets) {
			t.Errorf("%s is in %s", found, what)
		}
	}
	for what, text := range shown {
		for _, raw := range told.raw {
			if strings.Contains(text, raw[:40]) {
				t.Errorf("a descriptor is in %s", what)
			}
		}
	}
}

func TestAKeyIsFoundInWhateverFormItIsWritten(t *testing.T) {
	key := map[string]uint32{"k": 0x104001}
	for text, there := range map[string]bool{
		"a line with rkey 0x104001.": true, `{"k":1064961}`: true, "0X00104001": true, "104001": true,
		"QKEY=0x104001,": true, "": false, "0.104001": false, "1104001": false, "0x1040012": false,
		"x104001": false, "1064962": false,
	} {
		if found := keysIn(text, key); (len(found) > 0) != there {
			t.Errorf("%q: found %q", text, found)
		}
	}
}

// keysIn gives the places in a text where a key stands by itself, as a decimal or hexadecimal number.
func keysIn(text string, keys map[string]uint32) (found []string) {
	names := map[string]string{}
	for name, key := range keys {
		names[fmt.Sprintf("%d", key)], names[fmt.Sprintf("0x%x", key)] = name, name
	}
	for _, at := range words.FindAllStringIndex(text, -1) {
		word := strings.ToLower(text[at[0]:at[1]])
		name, ok := names[word]
		if !ok {
			name, ok = names["0x"+strings.TrimLeft(strings.TrimPrefix(word, "0x"), "0")]
		}
		if ok && (at[0] == 0 || text[at[0]-1] != '.') { // behind a point it is part of a fraction
			found = append(found, fmt.Sprintf("%s: %q", name, text[max(at[0]-60, 0):min(at[1]+20, len(text))]))
		}
	}
	return found
}

// words are what may be a number, as long as they are.
var words = regexp.MustCompile(`[0-9a-zA-Z]+`)

// fetch is what an address of the admin port answers.
func fetch(t *testing.T, url string) string {
	t.Helper()
	c := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	r, err := c.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
