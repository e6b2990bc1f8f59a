package verbs

import "unsafe"

// MaxSGE is the number of scatter/gather entries that a work request can carry.
const MaxSGE = 4

// SGE names a piece of a local MR (ibv_sge, same layout). The zero SGE is an empty piece.
type SGE struct {
	Addr   uint64 // virtual address in this process, see MR.Addr
	Length uint32 // bytes
	LKey   uint32
}

// WR is a send work request (ibv_send_wr): flat, without Go pointers, 128 bytes, so that a
// slice of them crosses into C as it is. Byte layout, shared with verbs/ibv's C shims:
//
//	 0  Token 8 | ID 8
//	16  Op 1 | Flags 1 | NumSGE 1 | pad 1 | Imm 4
//	24  RemoteAddr 8
//	32  RKey 4 | RemoteQPN 4
//	40  CompareAdd 8 | Swap 8
//	56  RemoteQKey 4 | AH 4
//	64  SGE 4 x 16
type WR struct {
	Token      uint64 // written by Post: the layer's own name of the request
	ID         uint64 // the caller's, returned in WC.ID (wr_id)
	Op         Opcode
	Flags      Flags
	NumSGE     uint8
	_          uint8
	Imm        uint32 // immediate data, host byte order
	RemoteAddr uint64 // address in the peer's process; 8-byte aligned for atomics
	RKey       uint32
	RemoteQPN  uint32 // UD
	CompareAdd uint64 // CAS: the value expected; FAA: the value added
	Swap       uint64 // CAS: the value stored
	RemoteQKey uint32 // UD
	AH         uint32 // UD: AH.Handle
	SGE        [MaxSGE]SGE
}

// RecvWR is a receive work request (ibv_recv_wr): 88 bytes.
//
//	 0  Token 8 | ID 8 | NumSGE 4 | pad 4
//	24  SGE 4 x 16
type RecvWR struct {
	Token  uint64 // written by Post
	ID     uint64
	NumSGE uint32
	_      uint32
	SGE    [MaxSGE]SGE
}

// WCFlags tell which fields of a WC are set.
type WCFlags uint32

const (
	// WCWithGRH: the first GRHBytes of a UD receive buffer hold (or are reserved for) a GRH.
	// The payload always starts at GRHBytes, whether the flag is set or not.
	WCWithGRH WCFlags = 1 << iota
	// WCWithImm: Imm is valid.
	WCWithImm
)

// GRHBytes is the space at the start of a UD receive buffer that belongs to the GRH.
const GRHBytes = 40

// WC is a work completion (ibv_wc): 48 bytes, flat.
//
//	 0  ID 8 | Status 4 | Op 4
//	16  ByteLen 4 | Imm 4 | QPN 4 | SrcQPN 4
//	32  VendorErr 4 | Flags 4 | Raw 4 | pad 4
type WC struct {
	ID        uint64 // the caller's ID of the request
	Status    WCStatus
	Op        WCOpcode
	ByteLen   uint32 // receives only (UD: GRH included)
	Imm       uint32
	QPN       uint32
	SrcQPN    uint32 // UD receives only
	VendorErr uint32
	Flags     WCFlags
	Raw       WCStatus // the provider's own status, before the contract was applied
	_         uint32
}

// WCOpcode is the Opcode of a completion, widened to keep WC flat.
type WCOpcode uint32

func (o WCOpcode) String() string { return Opcode(o).String() }

// Err returns nil for a success, else an *Error with the status and its hint.
func (wc *WC) Err() error {
	if wc.Status == WCSuccess {
		return nil
	}
	hint := wc.Status.Hint()
	if wc.Status == WCRetryExcErr && wc.Raw == WCLocQPOpErr {
		hint = noWay // nothing was sent: the peer is not to blame
	}
	return &Error{Op: "completion", QPN: wc.QPN, Status: wc.Status, Raw: wc.Raw,
		VendorErr: wc.VendorErr, Hint: hint}
}

// The layouts are shared with C.
var (
	_ [128]byte = [unsafe.Sizeof(WR{})]byte{}
	_ [88]byte  = [unsafe.Sizeof(RecvWR{})]byte{}
	_ [48]byte  = [unsafe.Sizeof(WC{})]byte{}
	_ [64]byte  = [unsafe.Offsetof(WR{}.SGE)]byte{}
)
