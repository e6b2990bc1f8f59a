package occ

import (
	"encoding/binary"
	"sync/atomic"

	"drtmd/proto"
	"drtmd/proto/onesided"
	"drtmd/store/layout"
)

// Seals of records without line words (layout.Sealed). At the record's host a CPU takes the seal off when it has locked
// a record, and puts it on just before it unlocks it. Elsewhere a copy with its seal takes the place of the READs of the
// header: EXECUTE is one READ, VALIDATE one READ of the seal.

// sealAt is where the records of a table have their seal; 0: they have none.
func sealAt(s *share, t proto.TableID) int { return s.Tables[t-1].Record().Seal }

// unseal takes the seal off a record that the caller has locked. The lock counts from then on.
func (e *Engine) unseal(s *share, t proto.TableID, off int) {
	if at := sealAt(s, t); at > 0 && !e.lacks(sealKept) {
		atomic.StoreUint64(onesided.WordIn(s.Memory, off+at), 0)
	}
}

// seal puts it on a record that the caller has locked and is about to unlock, if it is live.
func (e *Engine) seal(s *share, t proto.TableID, off int) {
	at := sealAt(s, t)
	if at == 0 || !onesided.VersionOf(s.Memory, uint64(off)).Live() {
		return
	}
	var h layout.Sealing
	for i := 0; i < at; i += 8 {
		if i != layout.StateOffset {
			h.Add(onesided.WordAt(s.Memory, uint64(off+i)))
		}
	}
	atomic.StoreUint64(onesided.WordIn(s.Memory, off+at), h.Seal())
}

// bySeal reports whether a READ of a record may prove it by its seal.
func bySeal(r *record) bool { return r.SealAt() > 0 && !r.Own.Unsealed }

// tookSealed takes a record that was READ, or fetched by its look-up, if its seal proves it. If not, its header has to.
func (t *tx) tookSealed(r *record) (whole bool, err error) {
	n := 1
	if r.Own.Fetched {
		n, r.Own.Fetched = 0, false
	}
	if err := t.readsFailed(r, n); err != nil {
		return false, err
	}
	h := layout.HeadOf(r.Image)
	if !r.Proved() && !t.e.lacks(sealUnread) {
		if r.Own.Unsealed = true; layout.Locked(h.State) && h.Key == uint64(r.Key) {
			return false, t.met(r, h)
		}
		return false, nil
	}
	whole, err = t.acceptAs(r, h)
	r.Own.Sealed = r.Own.Sealed || whole
	return whole, err
}

// postSeal posts the READ of the seal of record i.
func (t *tx) postSeal(p proto.Phase, i int) {
	r := &t.Records[i]
	_, to := t.look(i, lookBehind)
	t.read(p, r, part(to, 0, 8), uint64(r.SealAt()))
}

// sameSeal compares the seal of record i as it is now with that of the copy. It is another one, or none, if the record
// is locked, or has changed, moved or gone.
func (t *tx) sameSeal(i int) error {
	r := &t.Records[i]
	if err := t.readsFailed(r, 1); err != nil {
		return err
	}
	image, _ := t.look(i, lookBehind)
	now := binary.LittleEndian.Uint64(image)
	if now == layout.SealIn(r.Image) || now == 0 && t.e.lacks(lockUnseen) {
		return nil
	}
	return proto.Aborting(proto.ReasonValidation)
}
