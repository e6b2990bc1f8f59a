package lineword

import (
	"bytes"
	"runtime"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

func TestWordLayout(t *testing.T) {
	for _, c := range []struct {
		word    Word
		locked  bool
		owner   uint16
		version uint64
		text    string
	}{
		{0, false, 0, 0, "version 0"},
		{1, true, 0, 0, "version 0 locked by 0"},
		{1<<1 | 1, true, 1, 0, "version 0 locked by 1"},
		{1<<17 - 1, true, MaxOwner, 0, "version 0 locked by 65535"},
		{1 << 17, false, 0, 1, "version 1"},
		{1<<64 - 1, true, MaxOwner, 1<<47 - 1, "version 140737488355327 locked by 65535"},
	} {
		w := c.word
		if w.Locked() != c.locked || w.Owner() != c.owner || w.Version() != c.version ||
			w.String() != c.text {
			t.Errorf("%#x is %s, want %s", uint64(w), w, c.text)
		}
	}
}

func TestVersionWraps(t *testing.T) {
	w := Word(1<<64 - 1)
	if n := w.Next(); n != 0 {
		t.Errorf("after the last version comes %s", n)
	}
}

// TestWordIsALockWithAVersion runs random operations against a model.
func TestWordIsALockWithAVersion(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var p uint64
		var holder uint16 // 0 = unlocked
		version := uint64(0)
		stale := []Word{0}
		t.Repeat(map[string]func(*rapid.T){
			"lock": func(t *rapid.T) {
				owner := rapid.Uint16Range(1, MaxOwner).Draw(t, "owner")
				w := rapid.SampledFrom(stale).Draw(t, "seen")
				ok := TryLock(&p, w, owner)
				if ok != (holder == 0 && w.Version() == version && !w.Locked()) {
					t.Fatalf("TryLock from %s with %s: %v", w, Load(&p), ok)
				}
				if ok {
					holder = owner
				}
			},
			"take over": func(t *rapid.T) {
				owner := rapid.Uint16Range(1, MaxOwner).Draw(t, "owner")
				w := rapid.SampledFrom(stale).Draw(t, "seen")
				ok := TakeOver(&p, w, owner)
				if ok != (holder != 0 && w.Version() == version && w.Owner() == holder) {
					t.Fatalf("TakeOver from %s with %s: %v", w, Load(&p), ok)
				}
				if ok {
					holder = owner
				}
			},
			"unlock": func(t *rapid.T) {
				if holder != 0 {
					Unlock(&p, Load(&p))
					holder = 0
					version++
				}
			},
			"store and unlock": func(t *rapid.T) {
				if holder != 0 {
					var line uint64
					StoreUnlock(&line, 7, &p, Load(&p))
					if line != 7 {
						t.Fatal("nothing was stored")
					}
					holder = 0
					version++
				}
			},
			"restore": func(t *rapid.T) {
				if holder != 0 {
					Restore(&p, Load(&p))
					holder = 0
				}
			},
			"": func(t *rapid.T) {
				w := Load(&p)
				stale = append(stale, w)
				if w.Locked() != (holder != 0) || w.Owner() != holder || w.Version() != version {
					t.Fatalf("%s, want version %d locked by %d", w, version, holder)
				}
			},
		})
	})
}

// TestReadIsNeverTorn has one goroutine change a line and another read it.
func TestReadIsNeverTorn(t *testing.T) {
	if raceEnabled {
		t.Skip("a seqlock is a race in the terms of the detector; providers lock to read there")
	}
	var word uint64
	line := new([LineBytes]byte)
	const changes = 200_000
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range changes {
			w := Load(&word)
			if !TryLock(&word, w, 1) {
				t.Error("the only writer could not lock")
				return
			}
			for j := range line {
				line[j] = byte(i)
			}
			Unlock(&word, w)
		}
	})
	var got [LineBytes]byte
	last := uint64(0)
	for last < changes {
		w, ok := Read(&got, line, &word)
		if !ok {
			runtime.Gosched()
			continue
		}
		if w.Version() < last {
			t.Fatalf("version %d after %d", w.Version(), last)
		}
		last = w.Version()
		if !bytes.Equal(got[:], bytes.Repeat(got[:1], LineBytes)) {
			t.Fatalf("torn at %s: %v", w, got)
		}
	}
	wg.Wait()
}

// TestLockExcludes counts without atomics under the lock.
func TestLockExcludes(t *testing.T) {
	var word, count uint64
	const each = 50_000
	var wg sync.WaitGroup
	for owner := range uint16(3) {
		wg.Go(func() {
			for range each {
				for w := Load(&word); !TryLock(&word, w, owner+1); w = Load(&word) {
					runtime.Gosched()
				}
				count++
				Unlock(&word, Load(&word))
			}
		})
	}
	wg.Wait()
	if w := Load(&word); count != 3*each || w.Version() != 3*each {
		t.Errorf("%d increments and %s, want %d", count, w, 3*each)
	}
}

func BenchmarkReadLine(b *testing.B) {
	var word uint64
	var dst, src [LineBytes]byte
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := Read(&dst, &src, &word); !ok {
			b.Fatal("locked")
		}
	}
}

func BenchmarkLockUnlock(b *testing.B) {
	var word uint64
	b.ReportAllocs()
	for b.Loop() {
		w := Load(&word)
		if !TryLock(&word, w, 1) {
			b.Fatal("locked")
		}
		Unlock(&word, w)
	}
}
