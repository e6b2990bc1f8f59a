package history

import (
	"errors"
	"path/filepath"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func contents(t testing.TB, h *History, m Moment) (got []Content) {
	t.Helper()
	if err := h.EachContent(m, func(c Content) error {
		got = append(got, c)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return got
}

// drawContents draws keys of tables, with many that repeat each other.
func drawContents(t *rapid.T, name string) (all []Content) {
	for table := range Table(3) {
		c := Content{Table: table}
		for range rapid.IntRange(0, 30).Draw(t, name) {
			c.Key += Key(rapid.SampledFrom([]uint64{1, 1, 3, 1 << 63}).Draw(t, "step"))
			if rapid.Bool().Draw(t, "changes") || c.State == 0 {
				c.State = State(rapid.IntRange(1, int(Pending)).Draw(t, "state"))
				c.Version = Version(rapid.Uint64Min(1).Draw(t, "version"))
				if c.Digest = 0; c.State != Deleted {
					c.Digest = Digest(rapid.Uint64().Draw(t, "digest"))
				}
			}
			all = append(all, c)
		}
	}
	return all
}

// What tables held comes back: from memory, from a file, and from the files of two processes.
func TestContentOfTablesComesBackAsItWas(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(rt *rapid.T) {
		var want [Final + 1][]Content
		var paths []string
		for part := range 2 {
			run := Run{Versions: Counting, Initial: []*Snapshot{}, Final: []*Snapshot{},
				Partial: part == 1}
			for m, to := range map[Moment]*[]*Snapshot{Initial: &run.Initial, Final: &run.Final} {
				s := NewSnapshot(NodeID(part), m)
				mine := drawContents(rt, "keys")
				for _, c := range mine {
					s.Put(c)
				}
				*to = append(*to, s)
				want[m] = append(want[m], mine...)
			}
			r := NewRecorder(Options{Worker: WorkerID(part), Node: NodeID(part), Clock: testClock})
			s, err := r.Close()
			if err != nil {
				rt.Fatal(err)
			}
			h, err := NewRun(run, s)
			if err != nil {
				rt.Fatal(err)
			}
			paths = append(paths, filepath.Join(dir, []string{"a", "b"}[part]))
			if err := errors.Join(h.WriteFile(paths[part]), h.Close()); err != nil {
				rt.Fatal(err)
			}
		}
		h, err := OpenAll(Names{}, paths...)
		if err != nil {
			rt.Fatal(err)
		}
		for m := Initial; m <= Final; m++ {
			if got := contents(t, h, m); !slices.Equal(got, want[m]) || h.Keys(m) != uint64(len(got)) {
				rt.Fatalf("moment %d: %v, want %v", m, got, want[m])
			}
		}
		known, whole := h.Knows(Final)
		if !known || whole || h.Versions() != Counting || len(h.Nodes()) != 2 {
			rt.Fatal("the header is not that of both files", h.header)
		}
		if err := h.Close(); err != nil {
			rt.Fatal(err)
		}
	})
}

// A million keys that were loaded alike take next to nothing, and others 11 bytes each.
func TestContentIsCompact(t *testing.T) {
	for _, c := range []struct {
		name   string
		digest func(k Key) Digest
		most   int
	}{{"alike", func(Key) Digest { return 7 }, 200},
		{"different", func(k Key) Digest { return Digest(k) }, 11_100_000}} {
		s := NewSnapshot(0, Initial)
		for k := range Key(1_000_000) {
			s.Put(Content{Table: 1, Key: 3 * k, State: Present, Version: 1, Digest: c.digest(k)})
		}
		n := 0
		for _, b := range s.blocks() {
			n += len(b)
		}
		if n > c.most {
			t.Errorf("%s: %d bytes", c.name, n)
		}
	}
}

func TestPartsThatDoNotBelongTogetherAreRefused(t *testing.T) {
	dir := t.TempDir()
	save := func(name string, w WorkerID, run Run) string {
		s, err := NewRecorder(Options{Worker: w, Clock: testClock}).Close()
		if err != nil {
			t.Fatal(err)
		}
		r, err := NewRun(run, s)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(r.WriteFile(filepath.Join(dir, name)), r.Close()); err != nil {
			t.Fatal(err)
		}
		return filepath.Join(dir, name)
	}
	plain := save("plain", 1, Run{})
	// A worker that recorded nothing has no blocks, so that its number may come again.
	for _, other := range []string{save("counting", 2, Run{Versions: Counting}),
		save("initial", 2, Run{Initial: []*Snapshot{}}),
		save("final", 2, Run{Final: []*Snapshot{}})} {
		if h, err := OpenAll(Names{}, plain, other); h != nil || !errors.Is(err, ErrMerge) {
			t.Errorf("%s: %v", other, err)
		}
	}
	_, err := OpenAll(Names{}, plain, filepath.Join(dir, "none"))
	if err == nil {
		t.Error("a missing part is not missed")
	}
}
