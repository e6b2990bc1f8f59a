package data

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// memory is kept memory of a test.
type memory map[string][]byte

func (m memory) Kept() ([]string, error) { return slices.Sorted(maps.Keys(m)), nil }

func (m memory) RemoveKept(name string) error { delete(m, name); return nil }

func (m memory) CopyKept(name string, w io.Writer) error {
	_, err := w.Write(m[name])
	return err
}

func (m memory) PutKept(name string, size int64, r io.Reader) error {
	b := make([]byte, size)
	if _, err := io.ReadFull(r, b); err != nil {
		return err
	}
	m[name] = b
	return nil
}

// used is a store with data that a run has used.
func used(t *testing.T) (s *Store, dir string) {
	t.Helper()
	s, dir = &Store{}, t.TempDir()
	err := s.Load(dir)
	if err == nil {
		_, err = s.Replace(Held{ID: "1", Partitions: 1, Memory: "m-1"})
	}
	if err := errors.Join(err, s.Use("1")); err != nil {
		t.Fatal(err)
	}
	return s, dir
}

// TestSavedMemoryIsPutBackIfItIsGone, until it is opened again: then it is newer than the copy.
func TestSavedMemoryIsPutBackIfItIsGone(t *testing.T) {
	s, dir := used(t)
	m := memory{"m-1": bytes.Repeat([]byte("tables"), 1<<18), "m-1.t1.0": []byte("extent"), "m-10": []byte("another's")}
	saved, err := s.Save(m, time.Unix(1, 0).UTC())
	if err != nil || saved == nil || len(saved.Regions) != 2 || saved.Bytes() != 6<<18+6 {
		t.Fatalf("%+v, %v", saved, err)
	}
	if again, err := s.Save(m, time.Now()); again != nil || err != nil {
		t.Errorf("saved twice: %+v, %v", again, err)
	}
	want := maps.Clone(m)
	if r, err := s.Restore(m); r != nil || err != nil {
		t.Errorf("memory that is there was restored: %+v, %v", r, err)
	}
	delete(m, "m-1")
	delete(m, "m-1.t1.0")
	later := &Store{} // after the host has started again
	if err := later.Load(dir); err != nil {
		t.Fatal(err)
	}
	if r, err := later.Restore(m); err != nil || r == nil || len(r.Regions) != 2 || !maps.EqualFunc(m, want, bytes.Equal) {
		t.Errorf("%+v, %v", r, err)
	}
	if err := later.Forget(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, savedDir, "m-1")); err != nil {
		t.Errorf("a copy that counts was deleted: %v", err)
	}
	if _, err := later.Attach("1", 0, time.Minute); err != nil {
		t.Fatal(err)
	}
	delete(m, "m-1")
	if r, err := later.Restore(m); r != nil || err != nil || m["m-1"] != nil {
		t.Errorf("an older copy was restored: %+v, %v", r, err)
	}
	if err := later.Forget(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, savedDir)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("an older copy was kept: %v", err)
	}
}

// TestADamagedCopyIsRefused: nothing of it is put back.
func TestADamagedCopyIsRefused(t *testing.T) {
	for name, damage := range map[string]func([]byte) []byte{
		"a bit":  func(b []byte) []byte { b[len(b)/2] ^= 1; return b },
		"cut":    func(b []byte) []byte { return b[:len(b)-1] },
		"longer": func(b []byte) []byte { return append(b, 0) },
	} {
		s, dir := used(t)
		m := memory{"m-1": bytes.Repeat([]byte("tables"), 100)}
		if _, err := s.Save(m, time.Now()); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, savedDir, "m-1")
		b, err := os.ReadFile(file)
		if err == nil {
			err = os.WriteFile(file, damage(b), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		delete(m, "m-1")
		if r, err := s.Restore(m); !errors.Is(err, ErrDamaged) || r != nil || len(m) > 0 {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
}

// TestWhatNobodyUsedIsNotSaved.
func TestWhatNobodyUsedIsNotSaved(t *testing.T) {
	s := &Store{}
	if err := s.Load(t.TempDir()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Replace(Held{ID: "1", Memory: "m-1"}); err != nil {
		t.Fatal(err)
	}
	if saved, err := s.Save(memory{"m-1": {1}}, time.Now()); saved != nil || err != nil {
		t.Errorf("%+v, %v", saved, err)
	}
}

// TestWhatNobodyUsedIsLoadedAgainIfItIsGone: it was not saved, so no plane can go on with it.
func TestWhatNobodyUsedIsLoadedAgainIfItIsGone(t *testing.T) {
	s, dir := &Store{}, t.TempDir()
	err := s.Load(dir)
	if err == nil {
		_, err = s.Replace(Held{ID: "1", Memory: "m-1"})
	}
	if err := errors.Join(err, s.Loaded("1")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		m      memory
		loaded bool
	}{{"there", memory{"m-1": {1}}, true}, {"gone", memory{"m-10": {1}, "m-1.t1.0": {1}}, false}} {
		r, err := s.Restore(c.m)
		later := &Store{}
		if err := errors.Join(err, later.Load(dir)); err != nil || r != nil || later.Held().Loaded != c.loaded {
			t.Errorf("%s: %+v, %+v, %v", c.name, later.Held(), r, err)
		}
	}
}

// TestMemoryWithoutARecordIsNamed: that of the node's name, and no other.
func TestMemoryWithoutARecordIsNamed(t *testing.T) {
	s := &Store{}
	if err := s.Load(t.TempDir()); err != nil {
		t.Fatal(err)
	}
	const own, other = "n1-0123456789abcdef-0", "n1-fedcba9876543210-12"
	if _, err := s.Replace(Held{ID: "0123456789abcdef", Memory: own}); err != nil {
		t.Fatal(err)
	}
	m := memory{own: nil, other: nil, "n1": nil, "n1-logs": nil, "n10-fedcba9876543210-0": nil, "n1.2": nil}
	if got, err := s.Forgotten(m, "n1"); err != nil || !slices.Equal(got, []string{other}) {
		t.Errorf("%v, %v", got, err)
	}
}
