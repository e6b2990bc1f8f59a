package lineword

import (
	"testing"

	"pgregory.net/rapid"
)

func TestJournalHasRoomForTheLinesThatItWasSizedFor(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 1000).Draw(t, "lines")
		spare := rapid.IntRange(0, 7).Draw(t, "spare")
		words := make([]uint64, JournalWords(n)+spare)
		j := MakeJournal(words)
		if j.Lines() < n || JournalWords(j.Lines()) > len(words) {
			t.Fatalf("%d lines in %d words, sized for %d", j.Lines(), len(words), n)
		}
		if len(words)%8 != spare {
			t.Fatalf("%d words are not whole lines", len(words)-spare)
		}
	})
	for _, short := range []int{0, 1, 8, 15} {
		j := MakeJournal(make([]uint64, short))
		if s, n := j.State(); j.Lines() != 0 || s != JournalIdle || n != 0 {
			t.Errorf("%d words: %d lines, %s with %d", short, j.Lines(), s, n)
		}
	}
}

// TestJournalKeepsWhatItWasTold walks through a commit and reads it from a second view.
func TestJournalKeepsWhatItWasTold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		words := make([]uint64, JournalWords(20))
		owner, other := MakeJournal(words), MakeJournal(words)
		for range 3 {
			lines := rapid.SliceOfN(rapid.Uint64(), 1, 20).Draw(t, "lines")
			images := make([][LineBytes]byte, len(lines))
			for i, l := range lines {
				owner.List(i, l)
			}
			owner.Locking(len(lines))
			if s, n := other.State(); s != JournalLocking || n != len(lines) {
				t.Fatalf("%s with %d lines, want locking with %d", s, n, len(lines))
			}
			for i := range images {
				b := rapid.Byte().Draw(t, "fill")
				for k := range images[i] {
					images[i][k] = b + byte(k)
				}
				owner.Image(i, &images[i])
			}
			owner.Committed(len(lines))
			if s, n := other.State(); s != JournalCommitted || n != len(lines) {
				t.Fatalf("%s with %d lines, want committed with %d", s, n, len(lines))
			}
			for i, want := range images {
				var got [LineBytes]byte
				other.Read(i, &got)
				if other.Line(i) != lines[i] || got != want {
					t.Fatalf("line %d is %d %v, want %d %v", i, other.Line(i), got, lines[i], want)
				}
			}
			owner.Idle()
			if s, n := other.State(); s != JournalIdle || n != 0 {
				t.Fatalf("%s with %d lines after the end", s, n)
			}
		}
	})
}

func TestDamagedJournalIsIdle(t *testing.T) {
	words := make([]uint64, JournalWords(4))
	j := MakeJournal(words)
	for _, w := range []uint64{uint64(journalEnd), 255, 5<<journalCount | 1, 1 << 63, 1<<64 - 1} {
		words[0] = w
		if s, n := j.State(); s != JournalIdle || n != 0 {
			t.Errorf("%#x is %s with %d lines", w, s, n)
		}
	}
}
