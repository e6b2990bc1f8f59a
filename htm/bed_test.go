package htm

import (
	"unsafe"

	"drtmd/verbs/lineword"
)

// bed is memory on the Go heap with line words and n owners.
type bed struct {
	bytes    []byte
	words    []uint64
	memories []*Memory
}

func newBed(lines, owners int) *bed {
	raw := make([]uint64, (lines+1)*lineWords)
	skip := int(-uintptr(unsafe.Pointer(&raw[0])) & (LineBytes - 1))
	all := unsafe.Slice((*byte)(unsafe.Pointer(&raw[0])), len(raw)*8)
	b := &bed{bytes: all[skip : skip+lines*LineBytes], words: make([]uint64, lines)}
	for i := range owners {
		b.memories = append(b.memories, NewMemory(b.bytes, b.words, uint16(i+1),
			make([]uint64, lineword.JournalWords(min(lines, lineword.JournalLines)))))
	}
	return b
}

// plainBed is memory without line words.
func plainBed(lines int) *Memory {
	b := newBed(lines, 0)
	return NewMemory(b.bytes, nil, 0, nil)
}
