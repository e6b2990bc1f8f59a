package hosts

import (
	"encoding/gob"
	"fmt"
	"net"
	"os"
	"strconv"
	"testing"
	"time"

	"drtmd/verbs"
	"drtmd/verbs/ibv"
)

const (
	patience    = 60 * time.Second // for anything that must happen, at 10 % loss under emulation
	meetingPort = "18700"
)

// node is this guest's number, or the test is skipped: it needs two guests.
func node(t *testing.T) int {
	t.Helper()
	n, err := strconv.Atoi(os.Getenv("NODE"))
	if os.Getenv("DRTMD_GUEST") == "" || os.Getenv("NODES") != "2" || err != nil {
		t.Skip("runs on two guests at once: make test-rxe (NODES is not 2, or no DRTMD_GUEST)")
	}
	return n
}

// half is one end of the connection between both guests: memory that the peer works on, a buffer
// of our own, and a TCP connection for everything that is not under test.
type half struct {
	t      *testing.T
	pd     *verbs.PD
	target *verbs.MR // the peer's operations go here
	buffer *verbs.MR // ours start here
	cq     *verbs.CQ
	qp     *verbs.QP
	remote greeting
	enc    *gob.Encoder
	dec    *gob.Decoder
}

// greeting is what the ends tell each other.
type greeting struct {
	Endpoint []byte
	Addr     uint64
	RKey     uint32
}

const (
	targetBytes = 64 << 10
	queueDepth  = 16
)

// connect makes an end and connects it with its peer's.
func connect(t *testing.T, node int) *half {
	t.Helper()
	return connectWith(t, node, verbs.ConnectAttr{})
}

func connectWith(t *testing.T, node int, a verbs.ConnectAttr) *half {
	t.Helper()
	c, err := ibv.New().Open("")
	must(t, err)
	h := &half{t: t}
	h.pd, err = c.AllocPD()
	must(t, err)
	h.target, err = h.pd.AllocMR(targetBytes, verbs.AccessAll, verbs.MROptions{})
	must(t, err)
	h.buffer, err = h.pd.AllocMR(targetBytes, verbs.AccessLocalWrite, verbs.MROptions{})
	must(t, err)
	h.cq, err = c.CreateCQ(verbs.CQConfig{Depth: 2 * queueDepth})
	must(t, err)
	h.qp, err = h.pd.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: h.cq, RecvCQ: h.cq,
		SendDepth: queueDepth, RecvDepth: queueDepth, Access: verbs.AccessAll})
	must(t, err)
	h.meet(node, a)
	t.Cleanup(func() {
		must(t, h.qp.Close())
		must(t, c.Close())
	})
	return h
}

// meet connects the two ends: node 1 listens, node 2 tries until it does.
func (h *half) meet(node int, a verbs.ConnectAttr) {
	conn := h.dial(node)
	h.t.Cleanup(func() { conn.Close() })
	must(h.t, conn.SetDeadline(time.Now().Add(4*patience)))
	h.enc, h.dec = gob.NewEncoder(conn), gob.NewDecoder(conn)
	endpoint, err := h.qp.Endpoint().MarshalBinary()
	must(h.t, err)
	must(h.t, h.enc.Encode(greeting{endpoint, h.target.Addr(), h.target.RKey()}))
	must(h.t, h.dec.Decode(&h.remote))
	var peer verbs.Endpoint
	must(h.t, peer.UnmarshalBinary(h.remote.Endpoint))
	must(h.t, h.qp.Connect(&peer, a))
	h.barrier("connected")
}

func (h *half) dial(node int) net.Conn {
	h.t.Helper()
	if node == 1 {
		l, err := net.Listen("tcp", net.JoinHostPort(os.Getenv("NODE_ADDR"), meetingPort))
		must(h.t, err)
		defer l.Close()
		must(h.t, l.(*net.TCPListener).SetDeadline(time.Now().Add(patience)))
		conn, err := l.Accept()
		must(h.t, err)
		return conn
	}
	for end := time.Now().Add(patience); ; time.Sleep(200 * time.Millisecond) {
		conn, err := net.DialTimeout("tcp", net.JoinHostPort("10.77.0.1", meetingPort), patience)
		if err == nil {
			return conn
		}
		if time.Now().After(end) {
			h.t.Fatal(err)
		}
	}
}

// barrier returns once both ends have come to the point of this name.
func (h *half) barrier(name string) {
	h.t.Helper()
	must(h.t, h.enc.Encode(name))
	var other string
	must(h.t, h.dec.Decode(&other))
	if other != name {
		h.t.Fatalf("the peer is at %q, this end at %q", other, name)
	}
}

// do runs one request to its end; local is an offset of buffer, remote one of the peer's target.
func (h *half) do(wr verbs.WR, local, length, remote int) error {
	wr.Flags, wr.NumSGE = verbs.FlagSignaled, 1
	wr.SGE[0] = h.buffer.SGE(local, length)
	wr.RemoteAddr, wr.RKey = h.remote.Addr+uint64(remote), h.remote.RKey
	if _, err := h.qp.PostSend([]verbs.WR{wr}); err != nil {
		return err
	}
	return h.completion()
}

// completion waits for the next one, and gives its error.
func (h *half) completion() error {
	var wcs [1]verbs.WC
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Microsecond) {
		n, err := h.cq.Poll(wcs[:])
		if err != nil {
			return err
		}
		if n == 1 {
			return wcs[0].Err()
		}
		if time.Now().After(end) {
			return fmt.Errorf("no completion within %s", patience)
		}
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
