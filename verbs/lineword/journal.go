package lineword

import (
	"sync/atomic"
	"unsafe"
)

// Journal is the redo record of one owner that locks several lines at once: the commit of an
// emulated hardware transaction. It lies in memory that outlives the owner, beside the line
// words, so that others can finish or undo what a dead owner began.
//
//	word 0           state 8 | number of lines << 8
//	words 1..n       the lines' numbers
//	from the next    the lines' new contents, 64 bytes each
//	multiple of 8
//
// The owner lists the lines (List, Locking) before it locks the first, so only listed lines can
// be locked by it; locks them; writes their new contents (Image), says Committed before it stores
// to the first, and Idle after it has unlocked the last. Whoever finds it dead: while Committed,
// the listed lines that are still locked by it get their image, else nothing was stored. Either
// way they are then unlocked. The version of a locked line is that of the image: the owner does
// nothing else between Locking and Idle.
//
// The owner needs no lock; the fences are those of TryLock and StoreRelease. A Journal read from
// memory of others proves nothing: Read bounds what it returns.
type Journal struct {
	words  []uint64
	lines  int
	images int // word number of the first
}

// JournalState says how far the owner of a journal has come.
type JournalState uint8

const (
	JournalIdle      JournalState = iota // nothing is locked
	JournalLocking                       // listed lines may be locked; none was stored to
	JournalCommitted                     // listed lines that are locked must get their image
	journalEnd
)

func (s JournalState) String() string {
	return [...]string{"idle", "locking", "committed", "damaged"}[min(s, journalEnd)]
}

// journalCount is the shift of the number of lines in word 0.
const journalCount = 8

// JournalLines is the number of lines that a journal of JournalWords(JournalLines) holds: those
// of a first-level cache of 32 KiB.
const JournalLines = 512

// JournalWords is the size of a journal for n lines, a multiple of 8.
func JournalWords(n int) int { return (1+n+7)&^7 + 8*n }

// MakeJournal lays a journal over words; Lines is what they have room for.
func MakeJournal(words []uint64) Journal {
	n := len(words) / 9
	for n > 0 && JournalWords(n) > len(words) {
		n--
	}
	return Journal{words: words, lines: n, images: JournalWords(n) - 8*n}
}

// Lines is how many lines the journal has room for.
func (j *Journal) Lines() int { return j.lines }

// List notes that line i of the commit is line number line.
func (j *Journal) List(i int, line uint64) { j.words[1+i] = line }

// Locking comes after List of n lines and before the first TryLock.
func (j *Journal) Locking(n int) {
	StoreRelease(&j.words[0], uint64(n)<<journalCount|uint64(JournalLocking))
}

// Image stores the new contents of line i of the commit.
func (j *Journal) Image(i int, image *[LineBytes]byte) {
	CopyLine(j.image(i), image)
}

// Committed comes after the images of n lines and before the first store to one.
func (j *Journal) Committed(n int) {
	StoreRelease(&j.words[0], uint64(n)<<journalCount|uint64(JournalCommitted))
}

// Idle comes after the last line was unlocked.
func (j *Journal) Idle() { StoreRelease(&j.words[0], uint64(JournalIdle)) }

// State is how far the owner has come, and the number of lines listed; a journal that nobody can
// have written so is idle.
func (j *Journal) State() (JournalState, int) {
	if len(j.words) == 0 {
		return JournalIdle, 0
	}
	w := atomic.LoadUint64(&j.words[0])
	s, n := JournalState(w&(1<<journalCount-1)), w>>journalCount
	if s == JournalIdle || s >= journalEnd || n > uint64(j.lines) {
		return JournalIdle, 0
	}
	return s, int(n)
}

// Line is the number of line i of the commit, which may be any number.
func (j *Journal) Line(i int) uint64 { return atomic.LoadUint64(&j.words[1+i]) }

func (j *Journal) image(i int) *[LineBytes]byte {
	return (*[LineBytes]byte)(unsafe.Pointer(&j.words[j.images+8*i]))
}

// Read copies the new contents of line i of the commit.
func (j *Journal) Read(i int, image *[LineBytes]byte) { CopyLine(image, j.image(i)) }
