package bench

import (
	"errors"
	"hash/crc32"

	"drtmd/cmd/drtmd/internal/exchange"
	"drtmd/verbs"
)

// sideConfig is what one side of a measurement is made of.
type sideConfig struct {
	Case
	sendDepth, recvDepth int
	inline               int // payload up to this goes inline
}

// side is one side's queue pair with its queues and memory, which is laid out so:
//
//	source  one payload: what is sent or written, or where READ and atomics put their result
//	target  one payload: what the other side's one-sided operations work on
//	buffers receive buffers, at most maxBufferBytes in all; several receives share one if
//	        they are more. A datagram's begins with GRHBytes.
type side struct {
	cfg      sideConfig
	st       *Station
	qp       *verbs.QP
	scq, rcq *verbs.CQ
	mr       *verbs.MR
	ah       *verbs.AH
	slot     int // bytes of source and of target
	buffer   int // bytes of a receive buffer
	buffers  int
	open     []interface{ Close() error }

	peer   verbs.Endpoint
	remote exchange.Memory
}

const maxBufferBytes = 4 << 20

// lines rounds up to whole 64-byte lines.
func lines(n int) int { return (n + verbs.LineBytes - 1) / verbs.LineBytes * verbs.LineBytes }

func newSide(st *Station, cfg sideConfig) (*side, error) {
	s := &side{cfg: cfg, st: st, slot: lines(max(cfg.Size, atomicSize)), buffers: 1}
	s.buffer = lines(cfg.Size + verbs.GRHBytes)
	s.buffers = max(1, min(cfg.recvDepth, maxBufferBytes/s.buffer))
	if err := s.make(); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func (s *side) make() error {
	c, cfg := s.st.ctx, &s.cfg
	var err error
	s.mr, err = s.st.pd.AllocMR(2*s.slot+s.buffers*s.buffer, cfg.Op.access(), verbs.MROptions{})
	if err != nil {
		return err
	}
	s.open = append(s.open, s.mr)
	if s.scq, err = s.newCQ(c, cfg.sendDepth); err != nil {
		return err
	}
	if s.rcq, err = s.newCQ(c, cfg.recvDepth); err != nil {
		return err
	}
	s.qp, err = s.st.pd.CreateQP(verbs.QPConfig{Type: cfg.Op.qpType(), SendCQ: s.scq,
		RecvCQ: s.rcq, SendDepth: cfg.sendDepth, RecvDepth: cfg.recvDepth, MaxInline: s.inline(),
		Port: s.st.port.Port, GIDIndex: s.st.choice, QKey: qkey, Access: cfg.Op.access()})
	if err != nil {
		return err
	}
	s.open = append(s.open, s.qp)
	return s.qp.ToInit()
}

// qkey of the datagrams. Any value without the highest bit, which is reserved to the kernel.
const qkey = 0x64727478

func (s *side) newCQ(c *verbs.Context, depth int) (*verbs.CQ, error) {
	cq, err := c.CreateCQ(verbs.CQConfig{Depth: depth, SingleThreaded: true})
	if err == nil {
		s.open = append(s.open, cq)
	}
	return cq, err
}

// inline is the payload that goes inline, or 0.
func (s *side) inline() int {
	if op := s.cfg.Op; (op == Write || op.twoSided()) && s.cfg.Size <= s.cfg.inline {
		return s.cfg.Size
	}
	return 0
}

// close destroys everything, the newest first. It may be called twice.
func (s *side) close() error {
	var errs []error
	for len(s.open) > 0 {
		last := len(s.open) - 1
		errs = append(errs, s.open[last].Close())
		s.open = s.open[:last]
	}
	return errors.Join(errs...)
}

// endpoint and memory are what the other side needs.
func (s *side) endpoint() ([]byte, error) { return s.qp.Endpoint().MarshalBinary() }

func (s *side) memory() exchange.Memory {
	return exchange.Memory{Addr: s.mr.Addr(), Length: uint64(s.mr.Len()), RKey: s.mr.RKey()}
}

// connect takes the queue pair to RTS, with peer on the other end.
func (s *side) connect(peer *verbs.Endpoint, remote exchange.Memory) error {
	if remote.Length < uint64(2*s.slot) {
		return limitf("the peer offers %d bytes, the measurement needs %d", remote.Length, 2*s.slot)
	}
	s.peer, s.remote = *peer, remote
	if s.cfg.Op != Datagram {
		return s.qp.Connect(peer, verbs.ConnectAttr{})
	}
	if err := s.qp.Connect(nil, verbs.ConnectAttr{}); err != nil {
		return err
	}
	ah, err := s.st.pd.CreateAH(verbs.AHAttr{Port: s.st.port.Port, GIDIndex: s.st.choice,
		GID: peer.GID, LID: peer.LID})
	if err != nil {
		return err
	}
	s.ah = ah
	s.open = append(s.open, ah)
	return nil
}

// request is the work request of the measured operation, for post after post.
func (s *side) request() verbs.WR {
	wr := verbs.WR{Op: s.cfg.Op.opcode()}
	if s.cfg.Size > 0 {
		wr.NumSGE, wr.SGE[0] = 1, s.mr.SGE(0, s.cfg.Size)
	}
	switch {
	case s.cfg.Op == Datagram:
		s.address(&wr)
	case s.cfg.Op != Send:
		wr.RemoteAddr, wr.RKey = s.remote.Addr+uint64(s.slot), s.remote.RKey
	}
	if s.cfg.Op == FAA {
		wr.CompareAdd = 1
	}
	if s.inline() > 0 {
		wr.Flags = verbs.FlagInline
	}
	return wr
}

// notice is an empty message that carries a number: a credit.
func (s *side) notice() verbs.WR {
	wr := verbs.WR{Op: verbs.OpSendImm}
	if s.cfg.Op == Datagram {
		s.address(&wr)
	}
	return wr
}

func (s *side) address(wr *verbs.WR) {
	wr.AH, wr.RemoteQPN, wr.RemoteQKey = s.ah.Handle(), s.peer.QPN, s.peer.QKey
}

// source is the payload to send, or the result of READ and atomics.
func (s *side) source() []byte { return s.mr.Bytes()[:s.cfg.Size] }

// target is what the other side's one-sided operations work on.
func (s *side) target() []byte { return s.mr.Bytes()[s.slot : s.slot+s.cfg.Size] }

// received is the payload of receive number n, counted from 0.
func (s *side) received(n uint64) []byte {
	at := 2*s.slot + int(n%uint64(s.cfg.recvDepth))%s.buffers*s.buffer
	if s.cfg.Op == Datagram {
		at += verbs.GRHBytes
	}
	return s.mr.Bytes()[at : at+s.cfg.Size]
}

// fill gives memory a content that a checksum tells from another one's.
func fill(b []byte, salt byte) {
	for i := range b {
		b[i] = byte(i) ^ byte(i>>8) ^ byte(i>>16) ^ salt
	}
}

func checksum(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }
