//go:build linux && amd64

package fabric

// Export lets peers fetch s as id, in place of what had this id before. The export holds a
// reference of its own. A closed segment is not exported: peers get ErrNoSegment.
func (f *Fabric) Export(id uint64, s *Segment) {
	e := s.share(id)
	f.mu.Lock()
	old := f.exports[id]
	switch {
	case f.closed:
		old = e
	case e == nil:
		delete(f.exports, id)
	default:
		f.exports[id] = e
	}
	f.mu.Unlock()
	if old != nil {
		_ = old.Close() // unmaps at most what its owner closed long ago
	}
}

// Unexport ends Export. Mappings that peers have stay valid.
func (f *Fabric) Unexport(id uint64) {
	f.mu.Lock()
	old := f.exports[id]
	delete(f.exports, id)
	f.mu.Unlock()
	if old != nil {
		_ = old.Close()
	}
}

// holdExport finds an exported segment and adds a reference to its mapping.
func (f *Fabric) holdExport(id uint64) (*Segment, bool) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	s := f.exports[id]
	return s, s != nil && s.m.acquire()
}

// Import maps segment id of p, waiting at most DefaultTimeout. Of this very Fabric it gives the
// same memory without a descriptor; every Import from a peer is a mapping of its own. The error
// wraps ErrNoSegment, ErrBadSegment, ErrPeerDead, ErrPeerTimeout, ErrHungUp, ErrBadFrame or
// ErrClosed.
func (f *Fabric) Import(p ProcID, id uint64) (*Segment, error) {
	const op = "import segment"
	if p == f.self {
		s, held := f.holdExport(id)
		if !held {
			return nil, f.peerError(op, p, ErrNoSegment)
		}
		return &Segment{m: s.m, id: id}, nil
	}
	s := &Segment{id: id}
	q := frame{op: opFetchSegment, payload: encodeID(id)}
	err := f.roundTrip(p, q, DefaultTimeout, func(reply frame, fds []int) (err error) {
		defer closeAll(fds) // the mapping does not need it
		s.m, err = f.adopt(reply.payload, fds)
		return err
	})
	if err != nil {
		return nil, f.peerError(op, p, err)
	}
	return s, nil
}
