package load

import (
	"encoding/json"
	"fmt"
	"net"

	"drtmd/proto"
	"drtmd/proto/workload"
	"drtmd/verbs"
)

// Step is what a process is asked to do.
type Step string

// Steps, in their order; look and failed come as often as wanted, and quit at any time. Open builds
// the process's members, connect connects them to all, go makes the engines, begin takes down what kept tables hold
// (only with Data.Attach), start lets clients run.
const (
	StepOpen    Step = "open"
	StepConnect Step = "connect"
	StepGo      Step = "go"
	StepBegin   Step = "begin"
	StepStart   Step = "start"
	StepLook    Step = "look"
	StepFailed  Step = "failed"
	StepEnd     Step = "end"
	StepFinish  Step = "finish"
	StepQuit    Step = "quit"
)

// Request is a step with what it needs.
type Request struct {
	Step      Step           `json:"step"`
	Plan      *Plan          `json:"plan,omitempty"`     // open; nil: the process knows it
	Members   []proto.NodeID `json:"members,omitempty"`  // open: that live in the process
	EpochNs   int64          `json:"epoch_ns,omitempty"` // open: on the leader's CLOCK_MONOTONIC
	Machine   string         `json:"machine,omitempty"`  // open: whose clock that is
	Leader    string         `json:"leader,omitempty"`   // open: control address of the leader
	Run       string         `json:"run,omitempty"`      // open: name of the run; "" serves only
	Data      *Data          `json:"data,omitempty"`     // open: that is kept; nil: none is
	All       [][]byte       `json:"all,omitempty"`      // connect: descriptors of every member
	Reset     bool           `json:"reset,omitempty"`    // look: the measurement begins
	Gone      []proto.NodeID `json:"gone,omitempty"`     // look, end: those whose process has died
	Latencies bool           `json:"latencies,omitempty"`
	History   string         `json:"history,omitempty"` // finish: where to save what was recorded
	Owing     bool           `json:"owing,omitempty"`   // finish: some process could not settle
}

// Data is what the members keep of their tables over their lives.
type Data struct {
	ID string `json:"id"`
	// Attach has the members go on with what they keep; else they load their tables, and keep them from then on.
	Attach bool `json:"attach"`
}

// Answer answers a request.
type Answer struct {
	Error     string            `json:"error,omitempty"`
	Own       [][]byte          `json:"own,omitempty"`    // open: descriptors of the members
	Device    *verbs.DeviceAttr `json:"device,omitempty"` // go
	Sum       *Snapshot         `json:"sum,omitempty"`
	Latencies [][]byte          `json:"latencies,omitempty"` // HdrHistogram V2, compressed
	Tally     workload.Tally    `json:"tally"`               // finish
	Did       workload.Ledger   `json:"did"`
	Orphans   *Orphans          `json:"orphans,omitempty"` // finish; nil: none
	Audit     string            `json:"audit,omitempty"`   // finish; "": nothing is wrong
	Recorded  bool              `json:"recorded,omitempty"`
	// NoFinal: what was recorded is without what the tables hold in the end, which cannot be judged.
	NoFinal bool `json:"no_final,omitempty"`
	// RecordedBytes are those of the file with what was recorded.
	RecordedBytes int64     `json:"recorded_bytes,omitempty"`
	Unsettled     Unsettled `json:"unsettled"` // end
	// Kept are the files in which the process records, if the leader is on the same machine: go.
	Kept []string `json:"kept,omitempty"`
	// Recovery is what the process has recovered: finish; nil: its records have no replicas.
	Recovery *RecoveryTotals `json:"recovery,omitempty"`
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
func (t *talk) take() (*Request, error) {
	r := &Request{}
	return r, t.in.Decode(r)
}

// answer waits for an answer.
func (t *talk) answer() (*Answer, error) {
	a := &Answer{}
	if err := t.in.Decode(a); err != nil {
		return nil, fmt.Errorf("no answer: %w", err)
	}
	if a.Error != "" {
		return nil, &Refusal{a.Error}
	}
	return a, nil
}

// Refusal is an answer that says what went wrong: the process lives.
type Refusal struct{ Text string }

func (e *Refusal) Error() string { return e.Text }
