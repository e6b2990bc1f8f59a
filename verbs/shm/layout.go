//go:build linux && amd64

package shm

import (
	"sync/atomic"
	"unsafe"

	"drtmd/verbs/lineword"
)

// Limits of a device. They are part of the layout below, so both sides of a connection have the
// same; layoutVersion changes with them.
const (
	layoutMagic   = 0x316d68736d747264 // "drtmshm1"
	layoutVersion = 2

	mrBits    = 14 // index bits of a key; the other 18 are its generation
	maxMR     = 1 << mrBits
	qpBits    = 14 // index bits of a QPN; the other 10 are its generation
	maxQP     = 1 << qpBits
	maxCQ     = 4096
	maxSender = 4095 // 12 bits of a datagram slot's word
	mtuBytes  = 4096
)

// Ids under which a device exports its segments.
const (
	controlID = 1
	firstID   = 2
)

// control is what a device shows its peers: one exported segment. Everything in it may be
// scribbled over by any peer, so the device never reads back what it knows itself, and whatever a
// peer reads here it bounds and checks.
//
//	0        head 64: magic 8 | version 8 | incarnation 8
//	64       senders  4096 x 16
//	         MRs     16384 x 64
//	         QPs     16384 x 128
//	         CQs      4096 x 64
type control struct {
	magic       uint64
	version     uint64
	incarnation uint64
	_           [5]uint64
	senders     [maxSender + 1]senderEntry
	mrs         [maxMR]mrEntry
	qps         [maxQP]qpEntry
	cqs         [maxCQ]cqEntry
}

// senderEntry names a process that sends datagrams to this device; the index, from 1, is the
// owner in the word of a slot. Claimed by a compare and swap on incarnation.
type senderEntry struct {
	incarnation atomic.Uint64 // 0 = free
	slot        atomic.Uint64 // fabric slot plus 1; 0 while it is being claimed
}

// mrEntry publishes an MR. key is written last and cleared first.
type mrEntry struct {
	key     atomic.Uint32 // 0 = none
	access  atomic.Uint32
	base    atomic.Uint64 // address of the first byte in the owner's process
	length  atomic.Uint64 // bytes
	segment atomic.Uint64 // id to import
	nonce   atomic.Uint64 // what mrHead.registered must hold
	pd      atomic.Uint32
	_       uint32
	_       [2]uint64
}

// qpEntry publishes a QP. word is QPN<<8 | state; what a state implies is written before it.
type qpEntry struct {
	word        atomic.Uint64
	kind        atomic.Uint32 // QPType
	access      atomic.Uint32
	pd          atomic.Uint32
	qkey        atomic.Uint32
	peerQPN     atomic.Uint32 // RC, from RTR on
	limits      atomic.Uint32 // max dest rd atomic | min RNR timer << 8
	peer        atomic.Uint64 // incarnation of the peer's process
	areaSegment atomic.Uint64 // the receive area
	areaOffset  atomic.Uint64
	areaSlots   atomic.Uint32 // a power of two
	cq          atomic.Uint32 // receive CQ: index into cqs
	// posted is how many receives were posted in all (RC), or up to which ticket datagrams
	// may come (UD). On a line of its own: it changes with every receive.
	posted atomic.Uint64
	group  atomic.Uint32 // bit of cqEntry.ready
	_      uint32
	_      [6]uint64
}

// cqEntry is how a sender tells a receive CQ that something came.
type cqEntry struct {
	ready   atomic.Uint64 // bit g: some QP of group g has messages
	armed   atomic.Uint32 // armIdle...
	channel atomic.Uint32 // id of the channel's event; 0 = none
	_       [6]uint64
}

// Values of cqEntry.armed.
const (
	armIdle      uint32 = iota
	armAny              // the next completion makes an event
	armSolicited        // the next solicited or failed one does
	armFired            // an event was made and not yet consumed
)

// recvSlot is a posted receive and its completion, in the receive area of an RC QP. The receiver
// writes the buffer, raises qpEntry.posted; the one sender fills the buffer, then writes result
// and last done.
type recvSlot struct {
	done   atomic.Uint64 // QPN<<40 | message number + 1, 32 bits << 8 | recvKind
	result atomic.Uint64 // imm << 32 | length
	bytes  atomic.Uint32 // size of the buffer; badBuffer = unusable
	count  atomic.Uint32 // SGEs
	sge    [4]slotSGE
	_      [5]uint64
}

type slotSGE struct {
	addr   atomic.Uint64
	length atomic.Uint32
	key    atomic.Uint32
}

// badBuffer marks a receive whose SGEs are not valid.
const badBuffer = 1<<32 - 1

// How a receive ended, in recvSlot.done.
const (
	recvSend uint8 = iota + 1
	recvSendImm
	recvWriteImm
	recvTooLong // the message is longer than the buffer
	recvBad     // the buffer is not valid
)

// ring is the receive area of a UD QP: this head, a claim word for each slot, rounded up to 64
// bytes, and the slots. Tickets are drawn at tail and belong to slot number ticket mod slots.
type ring struct {
	tail atomic.Uint64
	_    [7]uint64
}

// datagram is a slot of a ring: 64 bytes and the payload. A claim word and datagram.word are
//
//	63       40 39       14 13      2 1   0
//	| QPN (24) | lap (26)  | sender  | state |
//
// lap is ticket / slots. A sender takes a slot by a compare and swap of its claim word that names
// it, fills the slot, and publishes by storing word, of the same lap. The receiver frees the claim
// word for the next lap. A slot whose sender has died before it published is freed by the
// receiver; one whose sender is only stopped is passed over, by receiver and senders, until it
// moves. Claim words stand apart because the receiver looks at word all the time: a sender has to
// take that line from the receiver's core once and not twice.
type datagram struct {
	word   atomic.Uint64
	length atomic.Uint32
	source atomic.Uint32 // QPN of the sender
	imm    atomic.Uint32
	flags  atomic.Uint32 // datagramImm
	gid    [2]atomic.Uint64
	_      [3]uint64
	data   [mtuBytes]byte
}

const (
	datagramImm = 1

	slotFree    = 0 // claim word
	slotClaimed = 1 // claim word
	slotFull    = 2 // datagram.word: published
	slotState   = 3

	slotSenderShift = 2
	slotLapShift    = 14
	slotLapMask     = 1<<26 - 1
	slotQPNShift    = 40
)

func slotWord(qpn, lap, sender, state uint64) uint64 {
	return qpn<<slotQPNShift | lap&slotLapMask<<slotLapShift | sender<<slotSenderShift | state
}

func slotLap(w uint64) uint64 { return w >> slotLapShift & slotLapMask }

// ringView is a ring with its parts, for either side.
type ringView struct {
	ring   *ring
	claims unsafe.Pointer
	slots  unsafe.Pointer
	mask   uint64
	shift  uint   // of a ticket, to get its lap
	qpn    uint64 // of the receiving QP
}

// claimBytes is the size of the claim words of a ring.
func claimBytes(slots uint64) uint64 { return (slots*8 + lineBytes - 1) &^ (lineBytes - 1) }

func ringBytes(slots uint64) uint64 {
	return uint64(unsafe.Sizeof(ring{})) + claimBytes(slots) +
		slots*uint64(unsafe.Sizeof(datagram{}))
}

// newRingView lays a view over ringBytes(slots) bytes; slots is a power of two.
func newRingView(p unsafe.Pointer, slots, qpn uint64) ringView {
	v := ringView{ring: (*ring)(p), mask: slots - 1, qpn: qpn}
	v.claims = unsafe.Add(p, unsafe.Sizeof(ring{}))
	v.slots = unsafe.Add(v.claims, claimBytes(slots))
	for 1<<v.shift < slots {
		v.shift++
	}
	return v
}

func (v *ringView) claimWord(ticket uint64) *atomic.Uint64 {
	return (*atomic.Uint64)(unsafe.Add(v.claims, ticket&v.mask*8))
}

func (v *ringView) slot(ticket uint64) *datagram {
	return (*datagram)(unsafe.Add(v.slots, ticket&v.mask*uint64(unsafe.Sizeof(datagram{}))))
}

func (v *ringView) lap(ticket uint64) uint64 { return ticket >> v.shift & slotLapMask }

// published reports whether the slot of a ticket holds a datagram of a lap.
func (v *ringView) published(ticket, lap uint64) bool {
	return v.slot(ticket).word.Load() == slotWord(v.qpn, lap, 0, slotFull)
}

// own reports whether a claim word is one of this QP, and no garbage.
func (v *ringView) own(w uint64) bool {
	return w>>slotQPNShift == v.qpn && w&slotState <= slotClaimed
}

// mrHead stands in an MR's segment behind data and line words:
//
//	0                  data, rounded up to 4096
//	dataBytes          line words, 8 for each 64 bytes of data, rounded up to 4096
//	+ lineBytes        head 64, owners 128 each, line owners 128 each, journals of these
type mrHead struct {
	magic      uint64
	size       uint64        // bytes of data asked for
	registered atomic.Uint64 // nonce while registered, else 0
	_          uint32
	owners     uint32
	lined      uint64 // line owners
	_          [3]uint64
}

// ownerEntry belongs to one initiator, which locks one line at a time. intent is stored before
// the lock is tried, so of a dead owner only that line can be locked. The record is what it was
// about to store there; it counts if line and version are those of the locked word. A line owner
// has an entry too, of which incarnation and slot are used, and a journal.
type ownerEntry struct {
	incarnation atomic.Uint64 // 0 = free; claimed by a compare and swap
	slot        atomic.Uint64 // fabric slot plus 1; 0 while it is being claimed
	intent      uint64        // line number plus 1
	recordLine  uint64        // line number plus 1
	record      uint64        // version << 14 | offset in line << 7 | length; 0 = none
	_           [3]uint64
	data        [lineBytes]byte // the line; what the record names is valid
}

const lineBytes = 64

// journalBytes is the size of the journal of a line owner.
const journalBytes = ((1+lineword.JournalLines+7)&^7 + 8*lineword.JournalLines) * 8

// The layouts are shared between processes.
var (
	_ [16]byte   = [unsafe.Sizeof(senderEntry{})]byte{}
	_ [64]byte   = [unsafe.Sizeof(mrEntry{})]byte{}
	_ [128]byte  = [unsafe.Sizeof(qpEntry{})]byte{}
	_ [64]byte   = [unsafe.Offsetof(qpEntry{}.posted)]byte{}
	_ [64]byte   = [unsafe.Sizeof(cqEntry{})]byte{}
	_ [128]byte  = [unsafe.Sizeof(recvSlot{})]byte{}
	_ [64]byte   = [unsafe.Sizeof(ring{})]byte{}
	_ [4160]byte = [unsafe.Sizeof(datagram{})]byte{}
	_ [64]byte   = [unsafe.Sizeof(mrHead{})]byte{}
	_ [128]byte  = [unsafe.Sizeof(ownerEntry{})]byte{}
	_ [0]byte    = [unsafe.Sizeof(control{}) % 64]byte{}
)
