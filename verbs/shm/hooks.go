//go:build linux && amd64

package shm

import (
	"encoding/binary"
	"errors"
	"sync/atomic"
	"time"

	"drtmd/verbs"
	"drtmd/verbs/shm/internal/fabric"
)

// Kinds of fabric calls.
const (
	callPreAccess = 1
	callExtension = 2
)

// call is a question to another process that is under way.
type call struct {
	done   atomic.Bool
	answer []byte // once done
	err    error  // once done
}

// ask sends a request to the peer's process and gives the answer once it is there; waitCall
// until then. The call stands in sendHalf.now between two tries.
func (q *qp) ask(kind uint8, request func() []byte) ([]byte, outcome) {
	c := q.send.now.call
	if c == nil {
		c = &call{}
		q.send.now.call, q.send.now.kept = c, true
		p, req, limit := q.peer, request(), time.Duration(q.send.retryNs)
		q.dev.wg.Go(func() {
			c.answer, c.err = q.dev.fab.Call(p.id, kind, req, limit)
			c.done.Store(true)
			q.sendCQ.help()
		})
		return nil, waitCall
	}
	if !c.done.Load() {
		return nil, waitCall
	}
	q.send.now.call = nil
	if c.err == nil {
		return c.answer, success
	}
	var remote *fabric.RemoteError
	if errors.As(c.err, &remote) || errors.Is(c.err, fabric.ErrNoHandler) {
		return nil, outcome(verbs.WCRemOpErr)
	}
	if errors.Is(c.err, fabric.ErrPeerTimeout) {
		return nil, retryExceeded(VendorCall)
	}
	return nil, retryExceeded(VendorDead)
}

// judge asks the pre-access hook of a region.
func (q *qp) judge(r *region, off, n uint64, op verbs.Opcode) outcome {
	kind := verbs.AccessKindWrite
	switch op {
	case verbs.OpRead:
		kind = verbs.AccessKindRead
	case verbs.OpCAS, verbs.OpFAA:
		kind = verbs.AccessKindAtomic
	}
	a := verbs.AccessRequest{Kind: kind, Offset: int(off), Length: int(n),
		Initiator: q.dev.gid, QPN: q.qpn}
	if q.peer.local != nil {
		return verdictOutcome(r.mem.verdict(a))
	}
	if now := nanotime(); now < q.send.now.askAgain {
		return waitStall
	}
	b, out := q.ask(callPreAccess, func() []byte { return encodeAccess(r.key, a) })
	if out != success {
		return out
	}
	if len(b) != 1 {
		return outcome(verbs.WCRemOpErr)
	}
	out = verdictOutcome(verbs.Verdict(b[0]))
	if out == waitStall {
		q.send.now.kept = true
		q.send.now.askAgain = nanotime() + int64(stallPause)
	}
	return out
}

// stallPause is the least time between two questions to the hook of another process.
const stallPause = 50 * time.Microsecond

func verdictOutcome(v verbs.Verdict) outcome {
	switch v {
	case verbs.Allow:
		return success
	case verbs.Stall:
		return waitStall
	}
	return outcome(verbs.WCRemAccessErr)
}

// verdict runs the hook, if it is still there.
func (m *memory) verdict(a verbs.AccessRequest) verbs.Verdict {
	if m == nil {
		return verbs.Deny
	}
	h := m.hook.Load()
	if h == nil {
		return verbs.Allow
	}
	return (*h)(a)
}

// accessBytes is the size of an access request in a call:
//
//	0  key 4 | kind 1 | zero 3
//	8  offset 8 | length 8 | QPN 4 | zero 4
const accessBytes = 32

func encodeAccess(key uint32, a verbs.AccessRequest) []byte {
	b := make([]byte, accessBytes)
	le := binary.LittleEndian
	le.PutUint32(b, key)
	b[4] = byte(a.Kind)
	le.PutUint64(b[8:], uint64(a.Offset))
	le.PutUint64(b[16:], uint64(a.Length))
	le.PutUint32(b[24:], a.QPN)
	return b
}

var errBadRequest = errors.New("malformed request")

// servePreAccess answers initiators of other processes.
func (d *device) servePreAccess(from fabric.ProcID, b []byte) ([]byte, error) {
	if len(b) != accessBytes {
		return nil, errBadRequest
	}
	le := binary.LittleEndian
	key := le.Uint32(b)
	a := verbs.AccessRequest{Kind: verbs.AccessKind(b[4]), Initiator: gidOf(from),
		QPN: le.Uint32(b[24:])}
	off, n := le.Uint64(b[8:]), le.Uint64(b[16:])
	r := d.mr(key)
	if r == nil || off > r.size || n > r.size-off ||
		a.Kind < verbs.AccessKindRead || a.Kind > verbs.AccessKindAtomic {
		return []byte{byte(verbs.Deny)}, nil
	}
	a.Offset, a.Length = int(off), int(n)
	return []byte{byte(r.mem.verdict(a))}, nil
}

// HandleExtension installs an executor.
func (d *device) HandleExtension(number uint32, e verbs.Executor) error {
	d.execMu.Lock()
	defer d.execMu.Unlock()
	if e == nil {
		delete(d.executors, number)
		return nil
	}
	d.executors[number] = e
	return nil
}

func (d *device) executor(number uint32) verbs.Executor {
	d.execMu.RLock()
	defer d.execMu.RUnlock()
	return d.executors[number]
}

// execExtension sends the bytes of SGE 0 to the executor and puts its answer into SGE 1.
func (q *qp) execExtension(wr *verbs.WR) outcome {
	c := &q.send.now
	var to [verbs.MaxSGE]piece
	ask, answer := *wr, *wr
	ask.NumSGE = 1
	answer.NumSGE, answer.SGE[0] = 1, wr.SGE[1]
	total, ok := q.sources(&ask, c)
	count, room, ok2 := q.targets(&answer, &to)
	if !ok || !ok2 {
		return outcome(verbs.WCLocProtErr)
	}
	if total > fabric.MaxMessage-extensionHead || room > maxAnswer {
		return outcome(verbs.WCLocLenErr)
	}
	if out := q.ready(); out != success {
		return out
	}
	if c.answer == nil {
		b, out := q.askExtension(wr.Imm, total, room)
		if out != success {
			return out
		}
		if uint64(len(b)) > room {
			return outcome(verbs.WCRemOpErr)
		}
		c.answer, c.kept = b, true
	}
	for c.done < uint64(len(c.answer)) {
		n, out := q.scatter(to[:count], c.done, c.answer[c.done:])
		if out != success {
			return out
		}
		c.done += n
	}
	q.send.byteLen = uint32(len(c.answer))
	return success
}

// A call's request begins with number 4 | room for the answer 4, its answer with one byte.
const (
	extensionHead = 8
	maxAnswer     = fabric.MaxMessage - 1
)

func (q *qp) askExtension(number uint32, total, room uint64) ([]byte, outcome) {
	c := &q.send.now
	if d := q.peer.local; d != nil {
		run := d.executor(number)
		if run == nil {
			return nil, outcome(verbs.WCRemInvReqErr)
		}
		req, resp := make([]byte, total), make([]byte, room)
		c.gather(req, 0)
		n, err := run(req, resp)
		if err != nil || n < 0 || n > len(resp) {
			return nil, outcome(verbs.WCRemOpErr)
		}
		return resp[:n], success
	}
	b, out := q.ask(callExtension, func() []byte {
		b := make([]byte, extensionHead+total)
		binary.LittleEndian.PutUint32(b, number)
		binary.LittleEndian.PutUint32(b[4:], uint32(room))
		c.gather(b[extensionHead:], 0)
		return b
	})
	switch {
	case out != success:
		return nil, out
	case len(b) == 0 || b[0] == extensionFailed:
		return nil, outcome(verbs.WCRemOpErr)
	case b[0] != extensionRan:
		return nil, outcome(verbs.WCRemInvReqErr)
	}
	return b[1:], success
}

// First byte of the answer to an extension call.
const (
	extensionNone byte = iota + 1 // no executor of this number
	extensionRan
	extensionFailed
)

func (d *device) serveExtension(_ fabric.ProcID, b []byte) ([]byte, error) {
	if len(b) < extensionHead {
		return nil, errBadRequest
	}
	number, room := binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint32(b[4:])
	if room > maxAnswer {
		return nil, errBadRequest
	}
	run := d.executor(number)
	if run == nil {
		return []byte{extensionNone}, nil
	}
	answer := make([]byte, 1+room)
	n, err := run(b[extensionHead:], answer[1:])
	if err != nil || n < 0 || n > int(room) {
		return []byte{extensionFailed}, nil
	}
	answer[0] = extensionRan
	return answer[:1+n], nil
}
