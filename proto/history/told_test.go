package history

import (
	"errors"
	"path/filepath"
	"slices"
	"testing"
)

// TestWhatTheClientWasToldCannotBeTakenBack.
func TestWhatTheClientWasToldCannotBeTakenBack(t *testing.T) {
	for o := UserAborted; o < OutcomeCount; o++ {
		r := NewRecorder(Options{Worker: 1, Clock: testClock})
		x := r.Begin(1)
		x.SetName(7)
		x.Told(5)
		r.End(x, 9, o)
		if _, err := r.Close(); !errors.Is(err, ErrTold) {
			t.Errorf("told to be committed, and ended as %v: %v", o, err)
		}
	}
}

// TestToldIsForgottenWithTheTransaction: the next one of the same object was not told.
func TestToldIsForgottenWithTheTransaction(t *testing.T) {
	r := NewRecorder(Options{Worker: 1, Clock: testClock})
	x := r.Begin(1)
	x.Told(5)
	x.Told(7) // once is enough
	r.End(x, 9, Committed)
	x = r.Begin(10)
	r.End(x, 12, Aborted)
	s, err := r.Close()
	if err != nil {
		t.Fatal(err)
	}
	h, err := New(Names{}, s)
	if err != nil {
		t.Fatal(err)
	}
	got := records(t, h)
	if len(got) != 2 || got[0].EndNs != 5 || got[1].Outcome != Aborted || got[1].EndNs != 12 {
		t.Errorf("%+v", got)
	}
}

// TestReplicasComeBack from the files of two nodes, with what each holds.
func TestReplicasComeBack(t *testing.T) {
	dir := t.TempDir()
	want := []Replica{{0, 0}, {0, 1}, {1, 0}, {1, 1}}
	var paths []string
	for n := range NodeID(2) {
		run := Run{Versions: Counting}
		for shard := range uint16(2) {
			s := NewReplicaSnapshot(Replica{shard, n}, Final)
			if shard == 0 || n == 0 { // an empty replica is one, too
				s.Put(Content{Table: 3, Key: Key(shard), State: Present, Version: 1, Digest: Digest(n)})
			}
			run.Final = append(run.Final, s)
		}
		h, err := NewRun(run)
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, filepath.Join(dir, string(rune('a'+n))))
		if err := errors.Join(h.WriteFile(paths[n]), h.Close()); err != nil {
			t.Fatal(err)
		}
	}
	h, err := OpenAll(Names{}, paths...)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	if got := h.Replicas(); !slices.Equal(got, want) {
		t.Errorf("replicas %v", got)
	}
	for _, c := range contents(t, h, Final) {
		if !c.Sharded || c.Replica.Shard != uint16(c.Key) || c.Digest != Digest(c.Replica.Node) {
			t.Errorf("%+v", c)
		}
	}
	if _, err := OpenAll(Names{}, paths[0], paths[0]); !errors.Is(err, ErrMerge) {
		t.Errorf("a replica twice: %v", err)
	}
}
