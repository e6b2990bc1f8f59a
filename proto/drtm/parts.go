package drtm

import (
	"math/bits"

	"drtmd/proto"
	"drtmd/store/layout"
)

// Local records of which the declaration names fields are loaded in part (txset.Record.Lines): the line of the header
// and those of the fields, others when the program accesses them. DrTM's transactions access fields in place, too
// (§5.2). Protected is the record as a whole: the header has its state and its version.
//
// Only memory with line words does so, and only without a history, which has whole values (scenario fields of
// proto/scenario). A log has all from the first byte that was written to the last one. What lies between is loaded for
// it, if the program has not (loadLogged; scenario durable-parts).

// lineSet is some lines of an entry: bit i is line i.
type lineSet = uint64

// maxLines of an entry that is loaded in part.
const maxLines = 64

// linesAt are the line of the header and those of some bytes of a value.
func linesAt(offset, size int) lineSet {
	if size <= 0 {
		return 1
	}
	first := (layout.ValueOffset + offset) / layout.LineBytes
	end := (layout.ValueOffset+offset+size-1)/layout.LineBytes + 1
	return 1 | (lineSet(1)<<end-1)&^(lineSet(1)<<first-1)
}

// partOf are the lines that an access to fields needs of an entry of some bytes; 0: all.
func partOf(a *proto.Access, bytes int) lineSet {
	lines := (bytes + layout.LineBytes - 1) / layout.LineBytes
	if lines > maxLines {
		return 0
	}
	part := lineSet(1)
	for i := range a.Fields {
		f := &a.Fields[i]
		if layout.ValueOffset+int(f.Offset)+int(f.Bytes) > bytes {
			return 0
		}
		part |= linesAt(int(f.Offset), int(f.Bytes))
	}
	if part == lineSet(1)<<lines-1 {
		return 0
	}
	return part
}

// takeRun takes the first lines of a set that follow one another, as bytes of an entry.
func takeRun(s *lineSet, bytes int) (from, to int) {
	i := bits.TrailingZeros64(*s)
	n := bits.TrailingZeros64(^(*s >> i))
	*s &^= (lineSet(1)<<n - 1) << i
	return i * layout.LineBytes, min((i+n)*layout.LineBytes, bytes)
}

// Complete implements txset.Completer.
func (t *tx) Complete(r *record, offset, size int) error {
	missing := linesAt(offset, size) &^ r.Lines
	switch {
	case missing == 0:
		return nil
	case !r.Own.Found:
		r.Lines = 0
		return nil
	}
	if t.e.lacks(PartNotCompleted) {
		r.Lines |= missing
		return nil
	}
	return t.way.complete(t, r, missing)
}

// completeLocal is Complete in the region of LocalTX.
func (t *tx) completeLocal(r *record, missing lineSet) error {
	t.F.Step("drtm: before access")
	r.Lines |= missing
	if !t.loadSome(r, missing) {
		return t.regionOver()
	}
	return nil
}

// loadSome copies lines of an entry in the region.
func (t *tx) loadSome(r *record, lines lineSet) bool {
	for lines != 0 {
		from, to := takeRun(&lines, len(r.Image))
		if !t.share(r, from, to) {
			return false
		}
	}
	return true
}

// completeRound is Complete of a record that the first round has read: the whole of it, at the same version.
func (t *tx) completeRound(r *record, _ lineSet) error {
	v := r.Version
	r.Lines = 0
	if err := t.firstRound(r); err != nil {
		return err
	}
	if r.Version != v && !t.e.lacks(PartOfAnotherVersion) {
		return proto.Aborting(proto.ReasonValidation)
	}
	return nil
}

// prefetch asks for the lines of an entry that its load will copy.
func (t *tx) prefetch(r *record) {
	m, lines := t.e.Env.Memory, r.Lines
	switch {
	case lines == 0 && len(r.Image) <= layout.LineBytes:
		m.PrefetchLine(int(r.Own.Off) / layout.LineBytes)
		return
	case lines == 0:
		lines = lineSet(1)<<min(prefetchLines, (len(r.Image)+layout.LineBytes-1)/layout.LineBytes) - 1
	}
	m.Prefetch(int(r.Own.Off)/layout.LineBytes, lines)
}

// prefetchLines bounds how much of a whole entry is asked for: the processor follows by itself.
const prefetchLines = 4
