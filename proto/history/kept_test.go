package history

import (
	"os"
	"path/filepath"
	"testing"
)

// keptRecorder records in a file of the test.
func keptRecorder(t *testing.T) (*Recorder, string) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(t.TempDir(), "kept"), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	r := NewRecorder(Options{Worker: 7, Node: 3, Clock: Clock{Name: "c", ErrorNs: 5}, Keep: f})
	if err := r.Err(); err != nil {
		t.Fatal(err)
	}
	return r, f.Name()
}

// recordSome ends n transactions with a read and a write each.
func recordSome(r *Recorder, n int) {
	for i := range n {
		x := r.Begin(int64(10 * i))
		x.SetName(uint64(i + 1))
		x.Read(1, Key(i), Version(i+1), Digest(i))
		x.Write(1, Key(i), Version(i+2), Digest(i+1))
		r.End(x, int64(10*i+5), Committed)
	}
}

// salvaged is the history of what was kept.
func salvaged(t *testing.T, name string) (*History, error) {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	s, err := Salvage(f)
	if err != nil {
		return nil, err
	}
	h, err := NewRun(Run{Versions: Counting, Initial: []*Snapshot{}, Final: []*Snapshot{}}, s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	return h, nil
}

func TestWhatHadEndedOutlivesAKilledProcess(t *testing.T) {
	for _, n := range []int{0, 1, 3, 20000} { // none to several blocks
		r, name := keptRecorder(t)
		recordSome(r, n)
		r.Begin(1 << 40) // never ends
		h, err := salvaged(t, name)
		if err != nil {
			t.Fatal(err)
		}
		saved := filepath.Join(t.TempDir(), "saved")
		if err := h.WriteFile(saved); err != nil {
			t.Fatal(err)
		}
		again, err := Open(saved)
		if err != nil {
			t.Fatal(err)
		}
		i := 0
		err = again.Each(func(x *Record) error {
			if x.ID != (TxnID{7, uint64(i + 1)}) || x.Node != 3 || x.Name != uint64(i+1) || len(x.Ops) != 2 ||
				x.Ops[1].Key != Key(i) || x.EndNs != int64(10*i+5) {
				t.Fatalf("transaction %d: %+v", i, x)
			}
			i++
			return nil
		})
		if err != nil || i != n || again.Txns() != uint64(n) || again.Ops() != uint64(2*n) {
			t.Errorf("%d of %d transactions, %d and %d counted: %v", i, n, again.Txns(), again.Ops(), err)
		}
		if err := again.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestAKeptRecordingIsAHistoryLikeAnother(t *testing.T) {
	r, name := keptRecorder(t)
	recordSome(r, 20000)
	s, err := r.Close()
	if err != nil {
		t.Fatal(err)
	}
	h, err := New(Names{}, s)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	if err := h.Each(func(*Record) error { n++; return nil }); err != nil || n != 20000 {
		t.Errorf("%d transactions, %v", n, err)
	}
	if err := h.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(name); !os.IsNotExist(err) {
		t.Errorf("the file is left: %v", err)
	}
}

// TestACutEndLosesNoWholeTransaction: the process was killed in the middle of a write.
func TestACutEndLosesNoWholeTransaction(t *testing.T) {
	r, name := keptRecorder(t)
	recordSome(r, 10)
	i, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	for cut := i.Size(); cut > i.Size()-20; cut-- {
		if err := os.Truncate(name, cut); err != nil {
			t.Fatal(err)
		}
		h, err := salvaged(t, name)
		if want := uint64(9); err != nil || cut == i.Size() && h.Txns() != 10 || cut < i.Size() && h.Txns() != want {
			t.Errorf("%d of %d bytes: %v, %v", cut, i.Size(), h, err)
		}
	}
}

func TestADamagedKeptRecordingIsRefused(t *testing.T) {
	r, name := keptRecorder(t)
	recordSome(r, 20000)
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []int{0, 9, 20, 200, 1000, len(whole) / 4} {
		b := append([]byte(nil), whole...)
		b[at] ^= 0x10
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := salvaged(t, name); err == nil {
			t.Errorf("byte %d is damaged, and nobody says so", at)
		}
	}
}

func TestKeepingAllocatesNothing(t *testing.T) {
	r, _ := keptRecorder(t)
	recordSome(r, 30000)
	at := int64(1 << 30)
	if n := testing.AllocsPerRun(1000, func() {
		x := r.Begin(at)
		x.Read(1, 1, 1, 1)
		r.End(x, at+5, Committed)
		at += 10
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
