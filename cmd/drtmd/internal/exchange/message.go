package exchange

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"drtmd/verbs"
)

// Hello introduces a side: what limits what can be measured.
type Hello struct {
	Transport   string `json:"transport"`
	Device      string `json:"device"`
	Driver      string `json:"driver"`
	ActiveMTU   int    `json:"active_mtu_bytes"`
	MaxMsgBytes uint32 `json:"max_message_bytes"`
	MaxQueue    int    `json:"max_queue_requests"`
	Atomics     bool   `json:"atomics"`
}

// maxName bounds the names of a hello in bytes.
const maxName = 64

// check refuses what no side would say of itself: names that do harm on a terminal, limits under
// 1.
func (h *Hello) check() error {
	for _, name := range [...]string{h.Transport, h.Device, h.Driver} {
		printable := !strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r > '~' })
		if len(name) > maxName || !printable {
			return fmt.Errorf("%w: hello: name %.70q", ErrBadFrame, name)
		}
	}
	if h.Transport == "" || h.Device == "" { // a driver may be unknown
		return fmt.Errorf("%w: hello: transport %q, device %q", ErrBadFrame, h.Transport, h.Device)
	}
	if h.ActiveMTU < 1 || h.MaxMsgBytes < 1 || h.MaxQueue < 1 {
		return fmt.Errorf("%w: hello: active MTU %d, messages of %d bytes, queues of %d requests",
			ErrBadFrame, h.ActiveMTU, h.MaxMsgBytes, h.MaxQueue)
	}
	return nil
}

// Alive says that its sender runs, where it has nothing to say for long.
type Alive struct{}

// Fail ends the conversation.
type Fail struct {
	Reason string `json:"reason"`
}

// Memory is a registered region.
type Memory struct {
	Addr   uint64 `json:"addr"`
	Length uint64 `json:"length_bytes"`
	RKey   uint32 `json:"rkey"`
}

// Setup asks for one measurement.
type Setup struct {
	Op          string `json:"op"`    // as on the command line
	Phase       string `json:"phase"` // "latency" or "rate"
	Size        int    `json:"size_bytes"`
	SendDepth   int    `json:"send_depth"` // of the responder
	RecvDepth   int    `json:"recv_depth"` // of the responder
	CreditEvery int    `json:"credit_every_messages"`
	Inline      int    `json:"inline_bytes"` // payload up to this goes inline, if the device can
	Endpoint    []byte `json:"endpoint"`
	Memory      Memory `json:"memory"`
}

// Ready answers a Setup.
type Ready struct {
	Endpoint []byte `json:"endpoint"`
	Memory   Memory `json:"memory"`
}

// Stop ends a measurement.
type Stop struct{}

// Stopped says what arrived at the responder.
type Stopped struct {
	Received uint64 `json:"received_messages"` // of SEND and UD
	Checksum uint32 `json:"checksum"`          // CRC-32C of the data that arrived last
	Word     uint64 `json:"word"`              // the word that atomics worked on
}

// Bye ends the conversation in peace.
type Bye struct{}

// decodeEndpoint decodes the endpoint of a message.
func decodeEndpoint(b []byte) (*verbs.Endpoint, error) {
	var e verbs.Endpoint
	if err := e.UnmarshalBinary(b); err != nil {
		return nil, err
	}
	return &e, nil
}

// Peer is the decoded endpoint.
func (s *Setup) Peer() (*verbs.Endpoint, error) { return decodeEndpoint(s.Endpoint) }

// Peer is the decoded endpoint.
func (r *Ready) Peer() (*verbs.Endpoint, error) { return decodeEndpoint(r.Endpoint) }

// Encode makes the frame of a message.
func Encode(kind Kind, message any) (Frame, error) {
	p, err := json.Marshal(message)
	if err != nil {
		return Frame{}, err
	}
	return Frame{Kind: kind, Payload: p}, nil
}

// Decode reads the payload of a frame into message. Unknown fields and trailing bytes are
// refused: both sides run the same version.
func Decode(f Frame, message any) error {
	d := json.NewDecoder(bytes.NewReader(f.Payload))
	d.DisallowUnknownFields()
	if err := d.Decode(message); err != nil {
		return fmt.Errorf("%w: %s: %s", ErrBadFrame, f.Kind, err)
	}
	if _, err := d.Token(); err != io.EOF {
		return fmt.Errorf("%w: %s: bytes after the message", ErrBadFrame, f.Kind)
	}
	return nil
}
