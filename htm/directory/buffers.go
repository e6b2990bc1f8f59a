package directory

import (
	"fmt"

	"drtmd/htm/bloom"
	"drtmd/internal/invariant"
)

// Owner is who holds a Locking Buffer. Local transactions are those below Config.Transactions, by their
// number; the NIC numbers its remote transactions from there on.
type Owner int32

// Buffers are the Locking Buffers of a directory (§V-B, Figure 7). Each holds a copy of the filters of a
// transaction that commits, or the lines of an atomic read. They know nothing of the rest of a Directory.
type Buffers struct {
	all      []buffer
	held     int
	plain    *bloom.Filter // empty
	unlocked func()        // or nil
	mutation Mutation
	stats    BufferStats
}

// buffer is one of them.
type buffer struct {
	used        bool
	owner       Owner
	reader      bool // of several lines, not a commit
	reserved    bool // before its owner executes
	read, write *bloom.Filter
}

// BufferStats count what became of requests.
type BufferStats struct {
	Locks     uint64 // commits that were granted
	Conflicts uint64 // commits that were squashed
	Exhausted uint64 // of these, for want of a buffer
	Denied    uint64 // accesses that have to be tried again
}

// NewBuffers makes n free Locking Buffers. unlocked may be nil; see Hooks.Unlocked.
func NewBuffers(n int, unlocked func(), m Mutation) (*Buffers, error) {
	if n < 1 {
		return nil, fmt.Errorf("%w: %d Locking Buffers; without one, no transaction commits", ErrConfig, n)
	}
	b := &Buffers{all: make([]buffer, n), unlocked: unlocked, mutation: m}
	for i := range b.all {
		b.all[i].read, b.all[i].write = plain(), plain()
	}
	b.plain = plain()
	return b, nil
}

func plain() *bloom.Filter {
	f, err := bloom.New(bloom.Plain())
	invariant.Assert(err == nil, "directory: the plain filter is possible")
	return f
}

// Stats of the buffers.
func (b *Buffers) Stats() BufferStats { return b.stats }

// Denies reports whether an access has to be tried again: a write of a line that the filters of another
// owner have, or a read of one that the write filter has.
func (b *Buffers) Denies(o Owner, line bloom.Line, write bool) bool {
	if b.held == 0 {
		return false
	}
	for i := range b.all {
		if x := &b.all[i]; x.used && x.owner != o && b.stops(x, line, write) {
			b.stats.Denied++
			return true
		}
	}
	return false
}

// stops reports whether the filters of a buffer are in the way of an access.
func (b *Buffers) stops(x *buffer, line bloom.Line, write bool) bool {
	if write && x.read.Contains(line) {
		return true
	}
	return x.write.Contains(line) && b.mutation != LockCoversReadsOnly
}

// Lock takes a buffer for a commit, with copies of the owner's filters. writes are the lines that it has
// written; a conflict is one of them in the filters of another commit. What the owner has only read is not
// compared with the others' filters (§V-B).
func (b *Buffers) Lock(o Owner, read, write *bloom.Filter, writes []bloom.Line) Verdict {
	invariant.Assert(!b.Holds(o), "directory: a transaction locks twice")
	verdict := Granted
	if b.held > 0 {
		for i := range b.all {
			x := &b.all[i]
			if !x.used {
				continue
			}
			for _, line := range writes {
				if !b.stops(x, line, true) {
					continue
				}
				if !x.reader {
					b.stats.Conflicts++
					return Conflict
				}
				verdict = Denied
			}
		}
	}
	if verdict == Denied {
		b.stats.Denied++
		return Denied
	}
	x := b.free()
	if x == nil {
		b.stats.Conflicts++
		b.stats.Exhausted++
		return Conflict
	}
	*x = buffer{used: true, owner: o, read: x.read, write: x.write}
	x.read.Take(read)
	x.write.Take(write)
	b.stats.Locks++
	return Granted
}

// Reserve takes a buffer before its owner executes (§VI). What the owner will read is compared, too: it must not find
// a line locked later, while it holds others. The answer is Granted, or Denied: try again when a buffer was given back.
func (b *Buffers) Reserve(o Owner, read, write *bloom.Filter, reads, writes []bloom.Line) Verdict {
	for _, line := range reads {
		if b.Denies(o, line, false) {
			return Denied
		}
	}
	if b.Lock(o, read, write, writes) != Granted {
		return Denied
	}
	b.of(o).reserved = true
	return Granted
}

// Reserved reports whether another owner has reserved one of the lines so that it denies an access.
func (b *Buffers) Reserved(o Owner, lines []bloom.Line, write bool) bool {
	if b.held == 0 {
		return false
	}
	for i := range b.all {
		x := &b.all[i]
		if !x.used || !x.reserved || x.owner == o {
			continue
		}
		for _, line := range lines {
			if b.stops(x, line, write) {
				return true
			}
		}
	}
	return false
}

// LockReads takes a buffer so that nobody writes the lines before Unlock: a read of all of them is atomic. It
// is denied while another owner commits a write to one of them, or if no buffer is free.
func (b *Buffers) LockReads(o Owner, lines []bloom.Line) Verdict {
	invariant.Assert(!b.Holds(o), "directory: a transaction locks twice")
	for _, line := range lines {
		if b.Denies(o, line, false) {
			return Denied
		}
	}
	x := b.free()
	if x == nil {
		b.stats.Denied++
		return Denied
	}
	*x = buffer{used: true, owner: o, reader: true, read: x.read, write: x.write}
	x.read.Take(b.plain)
	x.write.Take(b.plain)
	for _, line := range lines {
		x.read.Insert(line)
	}
	return Granted
}

// free takes a buffer, or nil.
func (b *Buffers) free() *buffer {
	for i := range b.all {
		if x := &b.all[i]; !x.used {
			x.used = true
			b.held++
			return x
		}
	}
	return nil
}

// Holds reports whether an owner has a buffer.
func (b *Buffers) Holds(o Owner) bool { return b.of(o) != nil }

func (b *Buffers) of(o Owner) *buffer {
	if b.held == 0 {
		return nil
	}
	for i := range b.all {
		if x := &b.all[i]; x.used && x.owner == o {
			return x
		}
	}
	return nil
}

// Held is the number of buffers in use.
func (b *Buffers) Held() int { return b.held }

// Unlock gives the owner's buffer back, if it has one.
func (b *Buffers) Unlock(o Owner) {
	x := b.of(o)
	if x == nil {
		return
	}
	x.used = false
	b.held--
	if b.unlocked != nil {
		b.unlocked()
	}
}
