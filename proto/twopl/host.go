package twopl

import (
	"encoding/binary"
	"errors"

	"drtmd/proto"
	"drtmd/verbs/rpc"
)

// Types of the requests that a host serves.
const (
	TypeEnsure  rpc.Type = 0x50 // find the entry of a key, or make an absent one
	TypeReclaim rpc.Type = 0x51 // give back an absent entry that the caller has locked
)

// A request is table 2 | zero 6 | key 8 | lock word 8 (0: TypeEnsure); a response is code 1 |
// zero 7 | offset of the entry 8 (0: TypeReclaim). Little endian.
const (
	requestBytes  = 24
	responseBytes = 16
)

// hostCode is a host's answer.
type hostCode uint8

const (
	hostOK      hostCode = iota + 1
	hostFull             // the table has no room for the entry
	hostBusy             // regions kept aborting
	hostUnknown          // no such table
	hostKept             // the entry is in use again, and stays
	hostEnd
)

func (c hostCode) String() string {
	return [...]string{"?", "ok", "table full", "busy", "unknown table", "kept", "?"}[min(c, hostEnd)]
}

// err is what the code means for a transaction.
func (c hostCode) err() error {
	switch c {
	case hostOK, hostKept:
		return nil
	case hostFull:
		return proto.Aborting(proto.ReasonFull)
	case hostBusy:
		return proto.Aborting(proto.ReasonConflict)
	case hostUnknown:
		return proto.ErrUnknownTable
	}
	return errBadAnswer
}

// hostTries bounds the regions of one request.
const hostTries = 64

var (
	errBadRequest = errors.New("twopl: malformed request; peers must run the same version")
	errBadAnswer  = errors.New("twopl: malformed answer; peers must run the same version")
)

// body holds a request and its response while the call runs.
type body struct {
	req  [requestBytes]byte
	resp [responseBytes]byte
}

func (b *body) ask(t proto.TableID, k proto.Key, w lockWord) {
	binary.LittleEndian.PutUint16(b.req[0:], uint16(t))
	binary.LittleEndian.PutUint64(b.req[8:], uint64(k))
	binary.LittleEndian.PutUint64(b.req[16:], uint64(w))
}

// answer decodes the response of a call.
func (b *body) answer(n int, err error) (off uint64, c hostCode, _ error) {
	switch {
	case err != nil:
		return 0, 0, err
	case n != responseBytes || b.resp[0] == 0 || hostCode(b.resp[0]) >= hostEnd:
		return 0, 0, errBadAnswer
	}
	return binary.LittleEndian.Uint64(b.resp[8:]), hostCode(b.resp[0]), nil
}

// serve registers the host's functions. They run at once, on whichever worker the peer calls.
func (e *Engine) serve() {
	handler := func(f func(tab *table, k proto.Key, w lockWord) (uint64, hostCode)) rpc.Handler {
		return func(req, resp []byte) (int, error) {
			if len(req) != requestBytes || len(resp) < responseBytes {
				return 0, errBadRequest
			}
			var off uint64
			c := hostUnknown
			tab, err := e.table(proto.TableID(binary.LittleEndian.Uint16(req)))
			if err == nil {
				off, c = f(tab, proto.Key(binary.LittleEndian.Uint64(req[8:])),
					lockWord(binary.LittleEndian.Uint64(req[16:])))
			}
			clear(resp[:responseBytes])
			resp[0] = byte(c)
			binary.LittleEndian.PutUint64(resp[8:], off)
			return responseBytes, nil
		}
	}
	e.cfg.Port.Handle(TypeEnsure, handler(func(tab *table, k proto.Key, _ lockWord) (uint64,
		hostCode) {
		return e.ensure(tab, k)
	}))
	e.cfg.Port.Handle(TypeReclaim, handler(func(tab *table, k proto.Key, w lockWord) (uint64,
		hostCode) {
		return 0, e.reclaim(tab, k, w)
	}))
}

// ensure finds or makes the entry of a key in the own node's table. A new one is unlocked.
func (e *Engine) ensure(tab *table, k proto.Key) (off uint64, c hostCode) {
	e.lockStructure()
	defer e.unlockStructure()
	for range hostTries {
		e.stats.RegionRuns++
		if !e.region.Begin() {
			return 0, hostBusy
		}
		at, _, ok, err := tab.local.EnsureIn(e.region, uint64(k), uint64(unlocked))
		switch {
		case ok && err != nil:
			e.region.Abort(0)
			return 0, hostFull
		case ok && e.region.Commit(structure{}):
			return uint64(at), hostOK
		}
	}
	return 0, hostBusy
}

// reclaim gives an entry of the own node's table back that is absent and locked with w. Where the
// CPU and the device exclude each other, that unlocks it.
func (e *Engine) reclaim(tab *table, k proto.Key, w lockWord) hostCode {
	e.lockStructure()
	defer e.unlockStructure()
	for range hostTries {
		e.stats.RegionRuns++
		if !e.region.Begin() {
			return hostBusy
		}
		ok, err := tab.local.ReclaimIn(e.region, uint64(k), uint64(w))
		switch {
		case ok && err != nil:
			e.region.Abort(0)
			return hostKept
		case ok && e.region.Commit(structure{}):
			return hostOK
		}
	}
	return hostBusy
}

// lockStructure keeps the node's other workers from changing where entries are, where regions
// cannot.
func (e *Engine) lockStructure() {
	if e.cfg.Memory.Words == nil && !e.lacks(NoStructure) {
		e.cfg.Structure.Lock()
	}
}

func (e *Engine) unlockStructure() {
	if e.cfg.Memory.Words == nil && !e.lacks(NoStructure) {
		e.cfg.Structure.Unlock()
	}
}

// structure is the commit of a region that changes where entries are, on devices without line
// words: buckets are this worker's alone to change meanwhile, and an entry that is made or given
// back belongs to no key or is locked by the caller, so there is nothing to lock or validate.
type structure struct{}

func (structure) Confirm() bool  { return true }
func (structure) Lock() bool     { return true }
func (structure) Validate() bool { return true }
func (structure) Unlock(bool)    {}
