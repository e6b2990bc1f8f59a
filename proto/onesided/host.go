package onesided

import (
	"encoding/binary"
	"errors"

	"drtmd/proto"
	"drtmd/proto/protocol"
	"drtmd/store"
	"drtmd/verbs/rpc"
)

// Types of the requests that hosts serve.
const (
	TypeEnsure  rpc.Type = 0x40 // find the entry of a key, or make an absent one
	TypeForget  rpc.Type = 0x41 // nobody needs the absent entry of a key any more
	TypeReclaim rpc.Type = 0x42 // give back an absent entry that the caller has locked
)

// A request is table 2 | zero 6 | key 8, and lock word 8 for TypeReclaim; a response is code 8 |
// offset of the entry 8, which is 0 unless one was ensured, and nothing for TypeForget. Little endian.
const (
	requestBytes  = 24
	shortBytes    = 16 // of requests without a lock word
	responseBytes = 16
)

// Code is a host's answer.
type Code uint64

// Codes.
const (
	Done Code = iota + 1
	Full      // the table has no room for the entry
	Busy      // regions kept aborting, or somebody has the entry locked: ask again
	Kept      // the key has a value again, or no entry
)

func (c Code) String() string {
	return [...]string{"?", "done", "table full", "busy", "kept"}[min(c, Kept)]
}

// abortOf is what the code of an ensured entry means for a transaction.
func (b *Base) abortOf(c Code) error {
	switch c {
	case Done:
		return nil
	case Full:
		return b.full
	case Busy:
		return proto.Aborting(proto.ReasonConflict)
	}
	return errAnswer
}

// HostTries bounds the regions of one request.
const HostTries = 64

var (
	errRequest = errors.New("malformed request; peers must run the same version")
	errAnswer  = errors.New("malformed answer; peers must run the same version")
)

func encodeRequest(b *[requestBytes]byte, typ rpc.Type, table proto.TableID, k proto.Key,
	word uint64) int {
	clear(b[:8])
	binary.LittleEndian.PutUint16(b[:], uint16(table))
	binary.LittleEndian.PutUint64(b[8:], uint64(k))
	if typ != TypeReclaim {
		return shortBytes
	}
	binary.LittleEndian.PutUint64(b[16:], word)
	return requestBytes
}

// Serve registers a function of the host. It runs at once, on whichever worker the peer calls: a
// region does not wait.
func (b *Base) Serve(typ rpc.Type, serve func(table proto.TableID, k proto.Key, word uint64) (uint64,
	Code)) {
	b.Env.Port.Handle(typ, func(req, resp []byte) (int, error) {
		if len(req) != shortBytes && len(req) != requestBytes || len(resp) < responseBytes {
			return 0, errRequest
		}
		table, word := proto.TableID(binary.LittleEndian.Uint16(req)), uint64(0)
		if uint(table)-1 >= uint(len(b.Env.Specs)) {
			return 0, errRequest
		}
		if len(req) == requestBytes {
			word = binary.LittleEndian.Uint64(req[16:])
		}
		off, c := serve(table, proto.Key(binary.LittleEndian.Uint64(req[8:])), word)
		if typ == TypeForget {
			return 0, nil // the answer is that the request has arrived
		}
		binary.LittleEndian.PutUint64(resp, uint64(c))
		binary.LittleEndian.PutUint64(resp[8:], off)
		return responseBytes, nil
	})
}

// ServeEnsure registers Ensure.
func (b *Base) ServeEnsure() {
	b.Serve(TypeEnsure, func(table proto.TableID, k proto.Key, _ uint64) (uint64, Code) {
		off, live, c := b.ensureAt(b.Env.Shares[b.Env.Node], table, k)
		if c == Done && !live && b.Made != nil {
			b.Made(table, k)
		}
		return off, c
	})
}

// EnsureHere finds the entry of a record of the own machine, or makes an absent one: see ensureAt.
func (t *Tx) EnsureHere(r *Record) (off uint64, c Code) {
	off, live, c := t.base.ensureAt(t.base.Here(r), r.Table, r.Key)
	r.Own.Made = c == Done && !live
	t.MadeHere = t.MadeHere || r.Own.Made
	return off, c
}

// EnsureAt is ensureAt for whoever does not ask whether there is a record.
func (b *Base) EnsureAt(s *protocol.Share, table proto.TableID, k proto.Key) (off uint64, c Code) {
	off, _, c = b.ensureAt(s, table, k)
	return off, c
}

// ensureAt finds the entry of a key in the own machine's replica of a shard, or makes an absent one that is not
// locked. Whoever asked for it locks it like any other, and sees by its key if it was given back
// meanwhile: so no lock is lost with a response that does not arrive.
func (b *Base) ensureAt(s *protocol.Share, table proto.TableID, k proto.Key) (off uint64, live bool, c Code) {
	defer b.unlockStructure(b.lockStructure())
	for range HostTries {
		b.Counters.RegionRuns++
		b.region.Begin()
		at, v, ok, err := s.Tables[table-1].EnsureIn(b.region, uint64(k), 0)
		switch {
		case ok && err != nil:
			b.region.Abort(0)
			if c := b.makeRoom(s.Tables[table-1], err); c != Done {
				return 0, false, c
			}
		case ok && b.region.Commit(nil):
			return uint64(at), v.Live(), Done
		}
	}
	return 0, false, Busy
}

// makeRoom has a table that has refused an entry grow, or asks the protocol for room: Done if another try
// may find some.
func (b *Base) makeRoom(t protocol.PointIndex, refused error) Code {
	if g, ok := t.(protocol.GrowingIndex); ok && errors.Is(refused, store.ErrFull) && g.Grow() == nil {
		return Done
	}
	if b.Room == nil || !errors.Is(refused, store.ErrFull) {
		return Full
	}
	return b.Room()
}

// Unlink gives an entry of the own machine's table back if it is absent and its state word is word.
// Where the CPU and the device exclude each other, that unlocks it.
func (b *Base) Unlink(table proto.TableID, k proto.Key, word uint64, tries int) Code {
	return b.UnlinkAt(b.Env.Shares[b.Env.Node], table, k, word, tries)
}

// UnlinkAt is Unlink in a replica of whichever shard.
func (b *Base) UnlinkAt(s *protocol.Share, table proto.TableID, k proto.Key, word uint64, tries int) Code {
	defer b.unlockStructure(b.lockStructure())
	for range tries {
		b.Counters.RegionRuns++
		b.region.Begin()
		ok, err := s.Tables[table-1].ReclaimIn(b.region, uint64(k), word)
		switch {
		case ok && err != nil:
			b.region.Abort(0)
			if err == store.ErrNoEntry || err == store.ErrLive {
				return Kept
			}
			return Busy
		case ok && b.region.Commit(nil):
			return Done
		}
	}
	return Busy
}

// lockStructure keeps the machine's other workers from changing where entries are, where regions
// cannot.
func (b *Base) lockStructure() (locked bool) {
	if b.Worded() || b.Env.Structure == nil || b.Skips(StructureLock) {
		return false
	}
	b.Env.Structure.Lock()
	return true
}

func (b *Base) unlockStructure(locked bool) {
	if locked {
		b.Env.Structure.Unlock()
	}
}
