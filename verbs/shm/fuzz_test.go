//go:build linux && amd64 && !race

package shm

import (
	"encoding/binary"
	"testing"
	"time"
	"unsafe"

	"drtmd/verbs"
)

// FuzzScribbledMemory overwrites words of all that a peer can reach, between the operations of
// RC and UD pairs: each ends in some way and in time.
//
// The input is a list of 12-byte steps: place 1, offset 3 (in words), value 8.
func FuzzScribbledMemory(f *testing.F) {
	step := func(place byte, offset uint32, value uint64) []byte {
		b := binary.LittleEndian.AppendUint32(nil, offset<<8|uint32(place))
		return binary.LittleEndian.AppendUint64(b, value)
	}
	f.Add([]byte{})
	f.Add(step(0, 8, 1))                                               // a sender's slot
	f.Add(step(0, uint32(unsafe.Offsetof(control{}.qps)/8)+8, 1<<40))  // posted
	f.Add(step(0, uint32(unsafe.Offsetof(control{}.mrs)/8)+2, 1<<50))  // length of an MR
	f.Add(step(0, uint32(unsafe.Offsetof(control{}.qps)/8)+6, 1<<33))  // offset of an area
	f.Add(append(step(2, 0, 1<<40|7), step(2, 1, 1<<31)...))           // a done word
	f.Add(append(step(3, 8, 0xffff_ffff_ffff_ffff), step(3, 9, 1)...)) // a datagram slot
	f.Add(append(step(3, 0, 1<<62), step(1, 8192, 3)...))              // tail, a line word
	f.Fuzz(func(t *testing.T, in []byte) {
		p := New(Options{Dir: runDir(t)})
		small := nodeOptions{depth: 4, bytes: 4096}
		a, b := newNode(t, p, small), newNode(t, p, small)
		small.kind, small.qkey = verbs.UD, 17
		u, v := newNode(t, p, small), newNode(t, p, small)
		quick := verbs.ConnectAttr{RTS: verbs.RTSAttr{Timeout: 5, RetryCount: -1, RNRRetry: 1}}
		ea, eb := a.qp.Endpoint(), b.qp.Endpoint()
		check(t, a.qp.Connect(&eb, quick))
		check(t, b.qp.Connect(&ea, quick))
		check(t, u.qp.Connect(nil, quick))
		check(t, v.qp.Connect(nil, quick))
		ah, err := u.pd.CreateAHTo(v.qp.Endpoint())
		check(t, err)
		bd, bq := b.inside(t)
		vd, vq := v.inside(t)
		seg := func(d *device, q *qp) []byte {
			size := uint64(1) << q.recv.block.shift
			return unsafe.Slice((*byte)(q.recv.block.p), size)
		}
		places := [][]byte{bd.ctlSeg.Bytes(), bd.mr(b.mr.LKey()).seg.Bytes(), seg(bd, bq),
			seg(vd, vq), vd.ctlSeg.Bytes()}
		start := time.Now()
		round := func() {
			for _, n := range []*node{b, v} {
				_, _ = n.qp.PostRecv([]verbs.RecvWR{{NumSGE: 1,
					SGE: [4]verbs.SGE{n.mr.SGE(0, 128)}}})
			}
			for _, op := range []verbs.Opcode{verbs.OpRead, verbs.OpWrite, verbs.OpFAA,
				verbs.OpSend} {
				_, _ = a.qp.PostSend([]verbs.WR{{Op: op, Flags: verbs.FlagSignaled, NumSGE: 1,
					SGE: [4]verbs.SGE{a.mr.SGE(0, 8)}, RKey: b.mr.RKey(),
					RemoteAddr: b.mr.Addr()}})
			}
			_, _ = u.qp.PostSend([]verbs.WR{{Op: verbs.OpSend, Flags: verbs.FlagSignaled,
				NumSGE: 1, SGE: [4]verbs.SGE{u.mr.SGE(0, 8)}, AH: ah.Handle(),
				RemoteQPN: v.qp.QPN(), RemoteQKey: 17}})
			var wcs [8]verbs.WC
			for _, n := range []*node{a, b, u, v} {
				_, err := n.cq.Poll(wcs[:])
				check(t, err)
			}
		}
		round()
		for len(in) >= 12 {
			head := binary.LittleEndian.Uint32(in)
			to := places[int(head&0xff)%len(places)]
			at := int(head>>8) % (len(to) / 8) * 8
			*word(to, uint64(at)) = binary.LittleEndian.Uint64(in[4:])
			in = in[12:]
			round()
		}
		if took := time.Since(start); took > 20*time.Second {
			t.Fatalf("took %s", took)
		}
	})
}
