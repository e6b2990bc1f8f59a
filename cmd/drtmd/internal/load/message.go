package load

import (
	"encoding/json"
	"fmt"
	"net"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"drtmd/proto"
	"drtmd/proto/workload"
	"drtmd/verbs"
)

// step is what the supervisor asks a process to do.
type step string

// Steps, in their order; look and failed come as often as wanted. Each is answered once, open
// three times: with the descriptors of the process's members, when these are connected to those
// of connect, and after go when the engines are made.
const (
	stepOpen    step = "open"
	stepConnect step = "connect"
	stepGo      step = "go"
	stepStart   step = "start"
	stepLook    step = "look"
	stepFailed  step = "failed"
	stepEnd     step = "end"
	stepFinish  step = "finish"
	stepQuit    step = "quit"
)

// request is a step with what it needs.
type request struct {
	Step      step           `json:"step"`
	Members   []proto.NodeID `json:"members,omitempty"`  // open: that live in the process
	EpochNs   int64          `json:"epoch_ns,omitempty"` // open: on CLOCK_MONOTONIC
	All       [][]byte       `json:"all,omitempty"`      // connect: descriptors of every member
	Reset     bool           `json:"reset,omitempty"`    // look
	Gone      []proto.NodeID `json:"gone,omitempty"`     // look: those whose process has died
	Latencies bool           `json:"latencies,omitempty"`
	History   string         `json:"history,omitempty"` // finish: where to save what was recorded
}

// answer answers a request.
type answer struct {
	Error     string                   `json:"error,omitempty"`
	Own       [][]byte                 `json:"own,omitempty"`
	Device    *verbs.DeviceAttr        `json:"device,omitempty"`
	Sum       *Snapshot                `json:"sum,omitempty"`
	Latencies []*hdrhistogram.Snapshot `json:"latencies,omitempty"`
	Initial   workload.Quantities      `json:"initial"`
	Final     workload.Quantities      `json:"final"`
	Did       workload.Ledger          `json:"did"`
	Recorded  bool                     `json:"recorded,omitempty"`
}

// talk is one side of the conversation of a supervisor with a process: JSON, one value after the
// other, over a socket that only the two have.
type talk struct {
	conn net.Conn
	in   *json.Decoder
	out  *json.Encoder
}

func newTalk(c net.Conn) *talk {
	return &talk{conn: c, in: json.NewDecoder(c), out: json.NewEncoder(c)}
}

// send sends a value.
func (t *talk) send(v any) error { return t.out.Encode(v) }

// take waits for a request.
func (t *talk) take() (*request, error) {
	r := &request{}
	return r, t.in.Decode(r)
}

// answer waits for an answer, at most for a time.
func (t *talk) answer(timeout time.Duration) (*answer, error) {
	if err := t.conn.SetReadDeadline(time.Now().Add(timeout)); err != nil {
		return nil, err
	}
	a := &answer{}
	if err := t.in.Decode(a); err != nil {
		return nil, fmt.Errorf("no answer: %w", err)
	}
	if a.Error != "" {
		return nil, &refusal{a.Error}
	}
	return a, nil
}

// refusal is an answer that says what went wrong.
type refusal struct{ text string }

func (e *refusal) Error() string { return e.text }
