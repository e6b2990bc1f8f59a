//go:build race

package ring

import (
	"encoding/binary"

	"drtmd/verbs"
	"drtmd/verbs/lineword"
)

const raceEnabled = true

// memory is own memory that peers WRITE, under the lines' words, as the race detector wants it: polling memory is
// a race in the terms of Go's memory model.
type memory struct {
	b     []byte
	words []uint64
	slot  uint16
}

var memoryOptions = verbs.MROptions{LineOwners: 1}

func memoryOf(mr *verbs.MR) (memory, error) {
	o, err := mr.ClaimLineOwner()
	if err != nil {
		return memory{}, err
	}
	return memory{mr.Bytes(), mr.Lines(), o.Slot}, nil
}

func (m memory) part(at, n int) memory {
	const line = lineword.LineBytes
	return memory{m.b[at : at+n : at+n], m.words[at/line : (at+n)/line], m.slot}
}

// held runs f with the line of an offset locked.
func (m memory) held(at int, f func()) {
	p := &m.words[at/lineword.LineBytes]
	w := lineword.Load(p)
	for !lineword.TryLock(p, w, m.slot) {
		w = lineword.Load(p)
	}
	f()
	lineword.Restore(p, w)
}

func (m memory) load(at int) (v uint64) {
	m.held(at, func() { v = binary.NativeEndian.Uint64(m.b[at:]) })
	return v
}

func (m memory) store(at int, v uint64) {
	m.held(at, func() { binary.NativeEndian.PutUint64(m.b[at:], v) })
}

func (m memory) copyOut(dst []byte, at int) {
	if len(dst) > 0 {
		m.held(at, func() { copy(dst, m.b[at:]) })
	}
}
