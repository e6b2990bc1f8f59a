package nics

import (
	"errors"

	"drtmd/store/layout"
	"drtmd/store/robinhood"
	"drtmd/verbs/fiber"
)

// This file copies the records of a table to another host, while both are used (recovery).

// copying is the keys of a table as they were at one moment, for a node. Records that come later are logged to that.
type copying struct {
	table *robinhood.Table
	keys  []uint64
}

// errCopied: an answer that Copy has not made.
var errCopied = errors.New("not the records of a table")

// Copy puts records of a table into an answer, from a place in the list of its keys on: next place 4, 0: that was all |
// incarnation 4 | updates. 0 bytes: ask again later. A node has one list, which
// is made when it asks for place 0.
func (h *Host) Copy(resp []byte, node int, t *robinhood.Table, from int) int {
	if h.copying == nil {
		h.copying = map[int]copying{}
	}
	if from == 0 {
		keys, ok := t.Keys()
		if !ok {
			return 0 // somebody is changing it
		}
		h.copying[node] = copying{t, keys}
	}
	keys := h.copying[node].keys
	if h.copying[node].table != t || from > len(keys) {
		return 0
	}
	record := t.Record()
	image, value := make([]byte, record.Bytes), make([]byte, record.Room)
	var list []Update
	size := 16
	next := from
	for ; next < len(keys) && len(list) < MaxAccesses; next++ {
		if size += RecordBytes(t.Config().ValueBytes); size > len(resp) {
			break
		}
		place, found, ok := 0, false, false
		if h.region.Begin() {
			place, found, ok = t.FindIn(h.region, keys[next])
			if ok && found {
				m, off := t.At(place)
				ok = h.region.Load(m, off, image)
			}
			ok = ok && h.region.Commit(nil)
		}
		if !ok {
			break
		}
		if v := layout.HeadOf(image).Version; found && v.Live() {
			list = append(list, Update{Ref{Key: keys[next]}, Value{v, append([]byte(nil), record.Value(image, value)...)}})
		}
	}
	if next == from && next < len(keys) {
		return 0
	}
	if next == len(keys) {
		next = 0
	}
	e := (&encoder{}).u64(uint64(next) | uint64(t.Incarnations())<<32).updates(list)
	return copy(resp, e.b)
}

// Copied takes an answer of Copy apart. The updates do not say of which table they are.
func Copied(b []byte) (next, incarnation uint32, list []Update, err error) {
	d := &decoder{b: b}
	head := d.u64()
	list = d.updates()
	if d.bad {
		return 0, 0, nil, errCopied
	}
	return uint32(head), uint32(head >> 32), list, nil
}

// Fill puts copied records into a table, unless it has newer ones, and has it go on from an incarnation.
func (h *Host) Fill(f *fiber.Fiber, t *robinhood.Table, list []Update, incarnation uint32) error {
	for i := range list {
		f.Charge(applyPs)
		if _, err := h.applyUpdate(f, t, &list[i]); err != nil {
			return err
		}
	}
	for t.Incarnations() < incarnation {
		h.region.Begin()
		if t.RaiseIn(h.region, incarnation) && h.region.Commit(nil) {
			break
		}
		if err := f.Yield(); err != nil {
			return err
		}
	}
	return nil
}
