package nicindex

import (
	"fmt"

	"drtmd/internal/invariant"
	"drtmd/store/layout"
)

// Outcome is what an operation comes to.
type Outcome uint8

// Outcomes.
const (
	Done   Outcome = iota + 1
	Miss           // the host's table has the value
	Locked         // by another transaction
	Full           // no room: all objects are locked, pinned or being read
)

var outcomeNames = [...]string{Done: "done", Miss: "miss", Locked: "locked", Full: "full"}

func (o Outcome) String() string {
	if o >= Done && o <= Full {
		return outcomeNames[o]
	}
	return fmt.Sprintf("outcome(%d)", uint8(o))
}

// Read gives the version and the value of a key from the cache, to who owns its lock or if nobody does. The value is the
// index's; it holds until the next operation. An absent version has none.
func (x *Index) Read(segment int, key uint64, by Owner) (v layout.Version, value []byte, o Outcome) {
	n, ok := x.find(segment, key)
	if !ok {
		x.Stats.Misses++
		return 0, nil, Miss
	}
	p := x.object(n)
	switch {
	case p.owner != 0 && p.owner != by:
		return 0, nil, Locked
	case p.flags&flagKnown == 0 || p.flags&flagValue == 0 && p.version.Live():
		x.Stats.Misses++
		return 0, nil, Miss
	}
	p.flags |= flagUsed
	x.Stats.Hits++
	if !p.version.Live() {
		return p.version, nil, Done
	}
	return p.version, x.value(p), Done
}

// Version is that of a key, if the index knows it, and the owner of its lock, 0: nobody.
func (x *Index) Version(segment int, key uint64) (v layout.Version, known bool, owner Owner) {
	n, ok := x.find(segment, key)
	if !ok {
		return 0, false, 0
	}
	p := x.object(n)
	return p.version, p.flags&flagKnown != 0, p.owner
}

// BeginRead readies an object for the value that a DMA is about to bring. Full: read it, and do not cache it; the value
// is right all the same, because a key without an object is as the host has it.
func (x *Index) BeginRead(segment int, key uint64) Outcome {
	n, ok := x.find(segment, key)
	if !ok {
		if n, ok = x.admit(segment, key); !ok {
			return Full
		}
	}
	p := x.object(n)
	if p.reads == maxReads {
		return Full
	}
	p.reads++
	return Done
}

// EndRead ends a read that BeginRead has begun. The value is taken if the index does not know one: a commit that came
// meanwhile is newer. found says whether there is a version at all: a DMA that failed, or was torn, has brought none.
func (x *Index) EndRead(segment int, key uint64, v layout.Version, value []byte, found bool) {
	n, ok := x.find(segment, key)
	invariant.Assert(ok && x.object(n).reads > 0, "nicindex: a read ends that has not begun")
	p := x.object(n)
	p.reads--
	known := p.flags&flagKnown != 0
	if known && found && p.version != v {
		x.Stats.Stale++
	}
	if found && (!known || p.version == v || x.lacks(StaleTaken)) {
		p.version = v
		p.flags |= flagKnown
		if v.Live() && x.reserve(n) {
			copy(x.value(p), value)
			p.flags |= flagUsed | flagValue
		}
	}
	x.forget(n)
}

// Lock locks a key for a transaction, which may have it already, and reserves room for its new value.
func (x *Index) Lock(segment int, key uint64, by Owner) Outcome {
	invariant.Assert(by != 0, "nicindex: a lock without an owner")
	n, ok := x.find(segment, key)
	if !ok {
		if n, ok = x.admit(segment, key); !ok {
			return Full
		}
	}
	p := x.object(n)
	switch {
	case p.owner == by:
		return Done
	case p.owner != 0 && !x.lacks(LockTaken):
		return Locked
	case p.pins == maxPins || !x.reserve(n):
		x.forget(n)
		return Full
	}
	p.owner = by
	x.Stats.Locked++
	return Done
}

// EachLocked calls f with all keys that are locked, in the order of segments. f must not change the index.
func (x *Index) EachLocked(f func(segment int, key uint64, by Owner)) {
	if x.Stats.Locked == 0 {
		return
	}
	for s := range x.config.Segments {
		for i := int32(s); ; {
			p := &x.pages[i]
			for j := range p.at {
				if o := &p.at[j]; o.key != layout.NoKey && o.owner != 0 {
					f(s, o.key, o.owner)
				}
			}
			if p.next == 0 {
				break
			}
			i = p.next - 1
		}
	}
}

// Unlock releases the lock of a transaction; false: it has none.
func (x *Index) Unlock(segment int, key uint64, by Owner) bool {
	n, ok := x.find(segment, key)
	if !ok || x.object(n).owner != by {
		return false
	}
	x.object(n).owner = 0
	x.Stats.Locked--
	x.forget(n)
	return true
}

// Commit gives a key that a transaction has locked its new version and value, and pins it: until Unpin the host's table
// has an older one. It stays locked.
func (x *Index) Commit(segment int, key uint64, by Owner, v layout.Version, value []byte) {
	n, ok := x.find(segment, key)
	invariant.Assert(ok && x.object(n).owner == by, "nicindex: a commit of a key that it has not locked")
	p := x.object(n)
	if !x.lacks(VersionKept) {
		p.version = v
	}
	p.flags |= flagKnown | flagUsed
	p.flags &^= flagValue
	if v.Live() {
		copy(x.value(p), value)
		p.flags |= flagValue
	}
	if x.lacks(Unpinned) {
		return
	}
	if p.pins++; p.pins == 1 {
		x.Stats.Pinned++
	}
}

// Unpin says that the host has applied one commit of a key.
func (x *Index) Unpin(segment int, key uint64) {
	n, ok := x.find(segment, key)
	if !ok && x.config.Mutation != 0 {
		return
	}
	invariant.Assert(ok && (x.object(n).pins > 0 || x.config.Mutation != 0), "nicindex: a key is unpinned that was not pinned")
	p := x.object(n)
	if p.pins == 0 {
		return
	}
	if p.pins--; p.pins == 0 {
		x.Stats.Pinned--
	}
}

// forget drops an object that says nothing: neither version nor lock, and no read waits.
func (x *Index) forget(n int32) {
	p := x.object(n)
	if p.owner == 0 && p.reads == 0 && p.pins == 0 && p.flags&flagKnown == 0 {
		x.drop(p)
		x.tidy(n)
	}
}
