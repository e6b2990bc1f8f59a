package layout

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"
)

// moments are all states of a record's memory while it is written.
type moments struct {
	r      Record
	states [][]byte
	value  map[Version][]byte // that a version has
}

const tornVersions = 3

// written has a record written tornVersions times, as protocols do: lock, WRITE of the version, WRITE
// of all behind the header, unlock; with the seal, if there is one, taken off behind the lock and put on before it is
// given back. unit bytes of a WRITE land at one moment; those of the value in the given order of lines.
func written(k Kind, valueBytes, unit int, order []int) *moments {
	m := &moments{r: NewRecord(k, valueBytes), value: map[Version][]byte{}}
	memory, image := make([]byte, m.r.Bytes), make([]byte, m.r.Bytes)
	land := func(from, to int) {
		for ; from < to; from += unit - from%unit {
			end := min(from+unit-from%unit, to)
			copy(memory[from:end], image[from:end])
			m.states = append(m.states, bytes.Clone(memory))
		}
	}
	le := binary.LittleEndian
	v := FirstVersion
	for i := range tornVersions {
		le.PutUint64(image[StateOffset:], 1)
		land(StateOffset, StateOffset+8)
		m.value[v] = bytes.Repeat([]byte{byte(i + 1)}, valueBytes)
		m.r.Put(image, v, m.value[v])
		seal := uint64(0)
		if at := m.r.Seal; at > 0 {
			seal = SealIn(image)
			le.PutUint64(image[at:], 0)
			land(at, at+8)
		}
		land(VersionOffset, VersionOffset+8)
		for _, line := range order {
			land(max(ValueOffset, line*LineBytes), min((line+1)*LineBytes, m.r.Bytes))
		}
		if at := m.r.Seal; at > 0 {
			le.PutUint64(image[at:], seal)
			land(at, at+8)
		}
		le.PutUint64(image[StateOffset:], 0)
		land(StateOffset, StateOffset+8)
		v = v.Written()
	}
	return m
}

// right reports whether an image holds the value of its version.
func (m *moments) right(image []byte) bool {
	want, ok := m.value[HeadOf(image).Version]
	return ok && bytes.Equal(m.r.Value(image, make([]byte, m.r.Room)), want)
}

// TestATornReadIsNeverTakenForARecord reads a record of three lines, each line at every moment of
// three updates, whatever the order in which lines are read and land: memory without line words, of
// which only lines are read and written at one moment.
func TestATornReadIsNeverTakenForARecord(t *testing.T) {
	const lines, valueBytes = 3, 40 + 56 + 10
	eachKind(t, func(t *testing.T, k Kind) {
		torn, proved, deceived := 0, 0, 0
		for _, order := range [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
			m := written(k, valueBytes, LineBytes, order)
			stores := 6
			if m.r.Seal > 0 {
				stores += 2
			}
			if len(m.states) != tornVersions*stores {
				t.Fatalf("%d moments of %d updates", len(m.states), tornVersions)
			}
			n := len(m.states)
			image := make([]byte, m.r.Bytes)
			for i := range n * n * n {
				at := [lines]int{i % n, i / n % n, i / n / n}
				for line, moment := range at {
					copy(image[line*LineBytes:min((line+1)*LineBytes, len(image))],
						m.states[moment][line*LineBytes:])
				}
				switch right := m.right(image); {
				case m.r.Whole(image) && !right:
					t.Fatalf("lines written in order %v, read at moments %v: version %v with value %v",
						order, at, HeadOf(image).Version, m.r.Value(image, make([]byte, valueBytes)))
				case m.r.Whole(image):
					proved++
				case !right:
					torn++
					if !Locked(HeadOf(image).State) {
						deceived++
					}
				}
			}
		}
		if torn == 0 || deceived == 0 {
			t.Errorf("%d torn images, %d of them with a header that is unlocked", torn, deceived)
		}
		if (proved > 0) != (k != KindOneVersion) {
			t.Errorf("%d images of several lines were proved whole", proved)
		}
	})
}

// TestALineIsProvedByItsLock: of a record of one line, every READ of an unlocked one is whole; of a sealed one, every
// READ between the seal of an update and that it is taken off, which the lock comes before and the unlock behind.
func TestALineIsProvedByItsLock(t *testing.T) {
	eachKind(t, func(t *testing.T, k Kind) {
		want, valueBytes := tornVersions, 40
		if k == KindSealed {
			want, valueBytes = 3*tornVersions-1, 32
		}
		m := written(k, valueBytes, LineBytes, []int{0})
		proved := 0
		for i, image := range m.states {
			if m.r.Whole(image) {
				proved++
				if !m.right(image) {
					t.Errorf("moment %d: version %v with another value", i, HeadOf(image).Version)
				}
			}
		}
		if proved != want {
			t.Errorf("%d of %d moments are proved, want %d", proved, len(m.states), want)
		}
	})
}

// TestASecondLookAtTheHeaderProvesWordByWord reads a record word by word, in ascending order, as
// Soft-RoCE does. There only an unlocked header that is the same behind the READ is a proof, for every
// layout: line versions alone are deceived.
func TestASecondLookAtTheHeaderProvesWordByWord(t *testing.T) {
	const valueBytes = 40 + 56 + 10
	random := rand.New(rand.NewPCG(1, 2))
	eachKind(t, func(t *testing.T, k Kind) {
		m := written(k, valueBytes, 8, []int{0, 1, 2})
		deceived, proved, refused := 0, 0, 0
		image := make([]byte, m.r.Bytes)
		for range 40_000 {
			now := random.IntN(len(m.states))
			pause := random.IntN(len(image)/8 + 1) // of the reader, before this word
			for at := 0; at < len(image); at += 8 {
				if at/8 == pause {
					now = min(now+random.IntN(len(m.states)), len(m.states)-1)
				}
				copy(image[at:min(at+8, len(image))], m.states[now][at:])
			}
			head := HeadOf(image)
			same := !Locked(head.State) && HeadOf(m.states[now]) == head
			right := m.right(image)
			switch {
			case same && !right:
				t.Fatalf("version %v with value %v", head.Version, m.r.Value(image, make([]byte, valueBytes)))
			case same:
				proved++
			case m.r.Whole(image) && !right:
				deceived++
			case !right:
				refused++
			}
		}
		if proved == 0 || refused == 0 || (deceived > 0) != (k == KindLineVersions) {
			t.Errorf("%d proved, %d refused, %d taken for whole by their lines alone", proved, refused,
				deceived)
		}
	})
}

// TestASealProvesWordsInAnyOrder reads a sealed record word by word, in an order that is drawn, each word at a moment of
// its own. A copy with its seal is of the version that the record had when the seal was read, and that was no moment
// between the seal's coming off and the next one.
func TestASealProvesWordsInAnyOrder(t *testing.T) {
	const valueBytes = 40 + 56 + 10
	m := written(KindSealed, valueBytes, 8, []int{2, 0, 1})
	random := rand.New(rand.NewPCG(1, 2))
	proved, refused := 0, 0
	image := make([]byte, m.r.Bytes)
	words := len(image) / 8
	for range 40_000 {
		now, sealed := random.IntN(len(m.states)), 0
		for _, word := range random.Perm(words) {
			if random.IntN(words) == 0 {
				now = min(now+random.IntN(len(m.states)/2), len(m.states)-1)
			}
			if copy(image[8*word:8*word+8], m.states[now][8*word:]); 8*word == m.r.Seal {
				sealed = now
			}
		}
		switch then := m.states[sealed]; {
		case !m.r.Whole(image):
			refused++
		case !m.right(image) || HeadOf(then).Version != HeadOf(image).Version || !m.r.Whole(then):
			t.Fatalf("version %v with value %v, sealed when the record was %x", HeadOf(image).Version,
				m.r.Value(image, nil), then)
		default:
			proved++
		}
	}
	if proved < 1000 || refused < 1000 {
		t.Errorf("%d copies proved, %d refused", proved, refused)
	}
}

// TestAbsentRecordsHaveNoSeal: their headers say all there is.
func TestAbsentRecordsHaveNoSeal(t *testing.T) {
	r := NewRecord(KindSealed, 9)
	image := make([]byte, r.Bytes)
	r.Put(image, FirstVersion, make([]byte, 9))
	if !r.Whole(image) {
		t.Error("a record that was put has no seal")
	}
	if r.Put(image, FirstVersion.Deleted(), nil); SealIn(image) != 0 || r.Whole(image) {
		t.Errorf("a deleted record has seal %x", SealIn(image))
	}
}

// TestALineOfAnotherKeyIsNoneOfTheRecord: a slot had the record of one key and then that of another, as in
// hopscotch tables, which move records. A READ fetched some lines before and the others after. Both records
// have the same version, as all have that were loaded.
func TestALineOfAnotherKeyIsNoneOfTheRecord(t *testing.T) {
	const valueBytes = 40 + 56 + 56
	r := NewRecord(KindLineVersions, valueBytes)
	record := func(key uint64) []byte {
		image := make([]byte, r.Bytes)
		binary.LittleEndian.PutUint64(image, key)
		r.Put(image, FirstVersion, bytes.Repeat([]byte{byte(key)}, valueBytes))
		return image
	}
	before, after := record(1), record(2)
	for mixed := range 1 << 3 {
		image := bytes.Clone(before)
		for line := range 3 {
			if mixed>>line&1 == 1 {
				copy(image[line*LineBytes:(line+1)*LineBytes], after[line*LineBytes:])
			}
		}
		if got, want := r.Whole(image), mixed == 0 || mixed == 7; got != want {
			t.Errorf("lines %03b of the other record: whole is %v, want %v", mixed, got, want)
		}
	}
}
