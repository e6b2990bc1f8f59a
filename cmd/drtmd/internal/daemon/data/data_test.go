package data

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestUsedDataIsNeverReplaced, and a later life finds it again.
func TestUsedDataIsNeverReplaced(t *testing.T) {
	dir := t.TempDir()
	s := &Store{}
	if err := s.Load(dir); err != nil || s.Held() != nil {
		t.Fatalf("%v, %v", s.Held(), err)
	}
	one := Held{ID: "1", Partition: 2, Partitions: 3, Memory: "m-1"}
	if before, err := s.Replace(one); before != nil || err != nil {
		t.Fatal(before, err)
	}
	two := Held{ID: "2", Partition: 2, Partitions: 3, Memory: "m-2"}
	if before, err := s.Replace(two); err != nil || before.Memory != "m-1" {
		t.Fatal(before, err)
	}
	if err := s.Use("1"); !errors.Is(err, ErrOther) {
		t.Error(err)
	}
	if err := s.Use("2"); err != nil {
		t.Fatal(err)
	}
	later := &Store{}
	if err := later.Load(dir); err != nil {
		t.Fatal(err)
	}
	if h := later.Held(); h == nil || h.ID != "2" || h.Runs != 1 || !h.Loaded || !h.Used() {
		t.Errorf("%+v", h)
	}
	if _, err := later.Replace(one); !errors.Is(err, ErrUsed) || !strings.Contains(err.Error(), "partition 2 of 3 of data 2") {
		t.Error(err)
	}
}

// TestWhatIsNotKeptIsNotAttached.
func TestWhatIsNotKeptIsNotAttached(t *testing.T) {
	s := &Store{}
	if err := s.Load(t.TempDir()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Attach("1", 0, 0); !errors.Is(err, ErrOther) {
		t.Error(err)
	}
	if _, err := s.Replace(Held{ID: "1", Partition: 1, Partitions: 2, ClockNs: int64(time.Second)}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Attach("1", 1, time.Millisecond); err != nil {
		t.Errorf("tables that no run has used have no locks of a later time: %v", err)
	}
	if _, err := s.Attach("1", 1, time.Second); err != nil {
		t.Fatal(err)
	}
	if err := s.Use("1"); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		id        string
		partition int
		clock     time.Duration
		want      error
	}{
		{"2", 1, time.Minute, ErrOther},
		{"1", 0, time.Minute, ErrOther},
		{"1", 1, time.Millisecond, ErrClock},
		{"1", 1, time.Minute, nil},
		{"1", 1, 2 * time.Second, ErrClock}, // it was opened at a minute
		{"1", 1, time.Hour, nil},
	} {
		h, err := s.Attach(c.id, c.partition, c.clock)
		if !errors.Is(err, c.want) || (err == nil) != (h != nil) {
			t.Errorf("%+v: %+v, %v", c, h, err)
		}
	}
}

// TestAnotherPlaceIsRefused for tables that runs have used: what is there is of another time.
func TestAnotherPlaceIsRefused(t *testing.T) {
	s := &Store{}
	if err := s.Load(t.TempDir()); err != nil {
		t.Fatal(err)
	}
	check := func(where string, want error) {
		t.Helper()
		if err := s.CheckPlace(where); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", where, err, want)
		}
	}
	check("shm /a", nil)
	if _, err := s.Replace(Held{ID: "1", Where: "shm /a"}); err != nil {
		t.Fatal(err)
	}
	check("shm /b", nil) // they are loaded again
	if err := s.Use("1"); err != nil {
		t.Fatal(err)
	}
	check("shm /a", nil)
	check("shm /b", ErrPlace)
	check("ibv /a", ErrPlace)
}

// TestARecordThatCannotBeReadIsRefused: it is kept as it is.
func TestARecordThatCannotBeReadIsRefused(t *testing.T) {
	for text, want := range map[string]string{"{": "cannot read", `{"format": 2}`: "of format 2, and this drtmd reads format 1"} {
		dir := t.TempDir()
		file := filepath.Join(dir, File)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := (&Store{}).Load(dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		if b, err := os.ReadFile(file); err != nil || string(b) != text {
			t.Errorf("%q, %v", b, err)
		}
	}
}
