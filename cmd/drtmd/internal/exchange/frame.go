package exchange

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Version of the conversation. Both sides must speak the same.
const Version = 2

// MaxPayload bounds the payload of a frame in bytes.
const MaxPayload = 4096

const (
	magic       = "drtx"
	headerBytes = 12
)

// Conditions that callers tell apart with errors.Is.
var (
	// ErrNotPeer: what the other side sent is not this conversation.
	ErrNotPeer = errors.New("not a drtmd perf peer")
	// ErrVersion: a drtmd perf peer of another version.
	ErrVersion = errors.New("other version of drtmd perf")
	// ErrBadFrame: a frame that breaks the rules.
	ErrBadFrame = errors.New("bad frame")
	// ErrPeerGone: the connection ended before the conversation did.
	ErrPeerGone = errors.New("the peer is gone")
	// ErrPeerFailed: the other side said that it failed, and why.
	ErrPeerFailed = errors.New("the peer failed")
	// ErrTimeout: the other side was silent for too long.
	ErrTimeout = errors.New("the peer did not answer in time")
)

// Kind of a frame.
type Kind uint16

const (
	KindHello Kind = iota + 1
	KindFail
	KindSetup
	KindReady
	KindStop
	KindStopped
	KindBye
	KindAlive
	kindEnd
)

func (k Kind) String() string {
	names := [...]string{"?", "hello", "fail", "setup", "ready", "stop", "stopped", "bye",
		"alive"}
	if k > 0 && int(k) < len(names) {
		return names[k]
	}
	return fmt.Sprintf("unknown frame kind %d", uint16(k))
}

// Frame is one message, its payload still encoded.
type Frame struct {
	Kind    Kind
	Payload []byte
}

// AppendFrame encodes a frame (big endian):
//
//	 0  magic "drtx" 4 | version 2 | kind 2 | payload length 4
//	12  payload: JSON, at most MaxPayload bytes
//
// The header keeps this layout in all versions.
func AppendFrame(b []byte, f Frame) ([]byte, error) {
	if len(f.Payload) > MaxPayload {
		return b, fmt.Errorf("%w: payload of %d bytes, the most is %d", ErrBadFrame,
			len(f.Payload), MaxPayload)
	}
	b = append(b, magic...)
	b = binary.BigEndian.AppendUint16(b, Version)
	b = binary.BigEndian.AppendUint16(b, uint16(f.Kind))
	b = binary.BigEndian.AppendUint32(b, uint32(len(f.Payload)))
	return append(b, f.Payload...), nil
}

// ReadFrame reads and checks one frame. It looks at the magic before it waits for more, so that
// four bytes of something else are refused at once, and allocates only what the limit allows.
func ReadFrame(r io.Reader) (Frame, error) {
	var h [headerBytes]byte
	if n, err := io.ReadFull(r, h[:len(magic)]); err != nil {
		if n > 0 && string(h[:n]) != magic[:n] {
			return Frame{}, notPeer(h[:n])
		}
		return Frame{}, err
	}
	if string(h[:len(magic)]) != magic {
		return Frame{}, notPeer(h[:len(magic)])
	}
	if _, err := io.ReadFull(r, h[len(magic):]); err != nil {
		return Frame{}, unexpected(err)
	}
	be := binary.BigEndian
	if v := be.Uint16(h[4:]); v != Version {
		return Frame{}, fmt.Errorf("%w: the peer speaks %d, this side %d; "+
			"run the same release on both sides", ErrVersion, v, Version)
	}
	kind, length := Kind(be.Uint16(h[6:])), be.Uint32(h[8:])
	if kind == 0 || kind >= kindEnd {
		return Frame{}, fmt.Errorf("%w: %s", ErrBadFrame, kind)
	}
	if length > MaxPayload {
		return Frame{}, fmt.Errorf("%w: %s of %d bytes, the most is %d", ErrBadFrame, kind,
			length, MaxPayload)
	}
	f := Frame{Kind: kind, Payload: make([]byte, length)}
	if _, err := io.ReadFull(r, f.Payload); err != nil {
		return Frame{}, unexpected(err)
	}
	return f, nil
}

func notPeer(first []byte) error {
	return fmt.Errorf("%w: it sent %q first; connect to a running drtmd perf --listen",
		ErrNotPeer, first)
}

// unexpected: an end inside a frame is never a clean end.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
