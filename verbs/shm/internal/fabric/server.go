//go:build linux && amd64

package fabric

import (
	"encoding/binary"
	"errors"
	"net"
	"time"
)

const (
	// maxServed bounds the connections that peers may have open to one process: a few for each
	// process that fits on the fabric. One over the bound is closed at once.
	maxServed = 4 * MaxProcs
	// replyWait bounds how long a reply may wait for a peer that does not read.
	replyWait = time.Second
	// acceptPause is the wait after accept failed for want of descriptors.
	acceptPause = 10 * time.Millisecond
)

// Handler serves one kind of call. It runs on a goroutine of the caller's connection, may block
// as long as the caller should wait, and must not call Close of its Fabric. from is what the peer
// says it is, checked to be alive; req is dead when the handler returns. An error goes to the
// caller as text.
type Handler func(from ProcID, req []byte) ([]byte, error)

// Handle registers the handler for calls of kind; nil removes it. Calls that are running go on
// with the old one.
func (f *Fabric) Handle(kind uint8, h func(from ProcID, req []byte) ([]byte, error)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.handlers[kind] = h
}

func (f *Fabric) acceptLoop() {
	for {
		uc, err := f.lis.AcceptUnix()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil: // EMFILE, ECONNABORTED: passing, or ended by Close
			select {
			case <-f.done:
				return
			case <-time.After(acceptPause):
			}
			continue
		}
		c, err := newConn(uc)
		if err != nil || !f.startServing(c) {
			_ = uc.Close()
		}
	}
}

// startServing hands the connection to a goroutine, unless closed or over the bound.
func (f *Fabric) startServing(c *conn) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed || len(f.conns) >= maxServed {
		return false
	}
	f.conns[c] = struct{}{}
	f.wg.Go(func() {
		defer f.forget(c)
		if c.checkPeer() != nil {
			return
		}
		// Until the peer hangs up or sends what it should not; then there is nobody to tell.
		for c.receive(false, func(req frame, _ []int) error { return f.serve(c, req) }) == nil {
		}
	})
	return true
}

// forget closes a connection and takes it off the list.
func (f *Fabric) forget(c *conn) {
	f.mu.Lock()
	delete(f.conns, c) // harmless after Close, when the map is nil
	f.mu.Unlock()
	c.close()
}

// serve answers one request. An error ends the connection.
func (f *Fabric) serve(c *conn, req frame) error {
	if req.op == opReply {
		return ErrBadFrame
	}
	reply := frame{op: opReply, from: f.self, to: req.from, seq: req.seq}
	fd := -1
	switch {
	case req.to != f.self || !f.Alive(req.from):
		reply.status = statusWrongTarget
	case req.op == opCall:
		reply.status, reply.payload = f.runHandler(req.from, req.kind, req.payload)
	case req.op == opFetchSegment:
		s, held := f.holdExport(binary.LittleEndian.Uint64(req.payload))
		if held {
			defer s.m.release()
		}
		if !held || s.m.fd < 0 {
			reply.status = statusNotExported
			break
		}
		fd, reply.status, reply.payload = s.m.fd, statusOK, s.m.info().append(nil)
	case req.op == opFetchEvent:
		fd = f.dupEvent(binary.LittleEndian.Uint64(req.payload))
		if fd < 0 {
			reply.status = statusNotExported
			break
		}
		defer closeFD(fd)
		reply.status = statusOK
	}
	if err := c.uc.SetWriteDeadline(time.Now().Add(replyWait)); err != nil {
		return err
	}
	return c.send(&reply, fd)
}

// runHandler runs the handler of kind, if there is one, and turns its outcome into a reply.
func (f *Fabric) runHandler(from ProcID, kind uint8, req []byte) (status, []byte) {
	f.mu.RLock()
	h := f.handlers[kind]
	f.mu.RUnlock()
	if h == nil {
		return statusNoHandler, nil
	}
	answer, err := h(from, req)
	if err == nil && len(answer) > MaxMessage {
		err = ErrTooBig
	}
	if err != nil {
		text := err.Error()
		return statusHandlerError, []byte(text[:min(len(text), MaxMessage)])
	}
	return statusOK, answer
}
