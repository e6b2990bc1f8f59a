package load

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"drtmd/cmd/drtmd/internal/composition"
	"drtmd/proto/node"
	"drtmd/proto/option"
	"drtmd/proto/protocol"
	"drtmd/proto/workload"
)

// Plan is what the members of a cluster are asked to hold, and to run: all of it that they must
// have in common.
type Plan struct {
	Workload        string          `json:"workload"`
	Settings        option.Settings `json:"settings,omitempty"` // of the workload
	Protocol        string          `json:"protocol"`
	Mutation        string          `json:"mutation,omitempty"`
	Nodes           int             `json:"nodes"`              // members of the cluster
	Replicas        int             `json:"replicas,omitempty"` // of each record; 0: 1
	Workers         int             `json:"workers"`
	Threads         int             `json:"threads"` // OS threads of each member; 0: its own choice
	Fibers          int             `json:"fibers"`
	ClientNodes     int             `json:"client_nodes,omitempty"` // Options.ClientNodes
	Growth          protocol.Growth `json:"growth,omitzero"`        // of the tables of a node
	ProtocolOptions option.Settings `json:"protocol_options,omitempty"`
	Seed            uint64          `json:"seed"`
	Warmup          time.Duration   `json:"warmup_ns"`
	Duration        time.Duration   `json:"duration_ns"`
	SampleEvery     int             `json:"sample_every"`
	YieldEvery      int             `json:"yield_every"`
	Record          bool            `json:"record"`
}

// DefaultPlan is a plan of the default workload on the default protocol, for one node.
func DefaultPlan(has *composition.Composition) *Plan {
	return &Plan{Workload: has.DefaultWorkload().Name, Protocol: has.DefaultProtocol().Name, Nodes: 1,
		Workers: 1, Fibers: 16, Seed: 1, Warmup: 2 * time.Second, Duration: 10 * time.Second,
		SampleEvery: 64}
}

// Make makes the workload and the configuration of the plan's cluster. The recording is left to
// the caller.
func (p *Plan) Make(has *composition.Composition) (node.Config, error) {
	described, err := has.Protocol(p.Protocol)
	if err != nil {
		return node.Config{}, err
	}
	spec, err := has.Workload(p.Workload)
	if err != nil {
		return node.Config{}, err
	}
	w, _, err := spec.Make(p.Nodes, p.Settings)
	if err != nil {
		return node.Config{}, err
	}
	c := node.Config{Protocol: described, Workload: w, Nodes: p.Nodes, Workers: p.Workers,
		Replicas: p.Replicas, Fibers: p.Fibers, Seed: p.Seed, Mutation: p.Mutation,
		Options: p.ProtocolOptions, Growth: p.Growth}
	return c, c.Complete()
}

// tables is the part of a Plan on which the tables depend, and what their logs hold.
type tables struct {
	Workload string          `json:"workload"`
	Settings option.Settings `json:"settings"` // all
	Protocol string          `json:"protocol"`
	Options  option.Settings `json:"options"` // all
	Nodes    int             `json:"nodes"`
	Replicas int             `json:"replicas"`
	Workers  int             `json:"workers"`
	Fibers   int             `json:"fibers"`
	Growth   int64           `json:"growth"`
}

// Tables describes the tables of a plan: two plans with the same description can use the same tables, one after the
// other. "": they are not kept, because the workers log nothing of their own, or a deliberate bug is switched on.
func (p *Plan) Tables(has *composition.Composition) (string, error) {
	c, err := p.Make(has)
	if err != nil || !c.Durable() || p.Mutation != "" {
		return "", err
	}
	spec, err := has.Workload(p.Workload)
	if err != nil {
		return "", err
	}
	settings, err := spec.Options.Values(p.Settings)
	if err != nil {
		return "", err
	}
	options, err := c.Protocol.Options.Values(p.ProtocolOptions)
	if err != nil {
		return "", err
	}
	b, err := json.Marshal(tables{Workload: spec.Name, Settings: settings.Settings(), Protocol: c.Protocol.Name,
		Options: options.Settings(), Nodes: c.Nodes, Replicas: c.Replicas, Workers: c.Workers, Fibers: c.Fibers,
		Growth: c.Growth.Bytes})
	return string(b), err
}

// TablesDiffer says in words what differs in two descriptions of tables; "": nothing.
func TablesDiffer(a, b string) string {
	if a == b {
		return ""
	}
	var x, y map[string]any
	if json.Unmarshal([]byte(a), &x) != nil || json.Unmarshal([]byte(b), &y) != nil {
		return "one of them cannot be read"
	}
	var all []string
	differ(&all, "", x, y)
	return strings.Join(all, ", ")
}

// differ lists what differs in two values, by name.
func differ(all *[]string, name string, a, b any) {
	x, isMap := a.(map[string]any)
	y, both := b.(map[string]any)
	if !isMap || !both {
		if !reflect.DeepEqual(a, b) {
			*all = append(*all, fmt.Sprintf("%s %v, not %v", name, a, b))
		}
		return
	}
	names := map[string]bool{}
	for n := range x {
		names[n] = true
	}
	for n := range y {
		names[n] = true
	}
	for _, n := range slices.Sorted(maps.Keys(names)) {
		differ(all, n, x[n], y[n])
	}
}

// Options of the clients.
func (p *Plan) Options(w workload.Workload) Options {
	return Options{Workload: w, ClientNodes: p.ClientNodes, Seed: p.Seed, Warmup: p.Warmup, Duration: p.Duration,
		SampleEvery: p.SampleEvery, YieldEvery: p.YieldEvery}
}

// wire is a Result as it is sent: errors as words, the history apart.
type wire struct {
	*plainResult
	Conserved string
	Audit     string
	Lost      []string
	Unsettled *Unsettled
	History   *struct{}
}

type plainResult Result

// MarshalJSON leaves the history out.
func (r *Result) MarshalJSON() ([]byte, error) {
	w := wire{plainResult: (*plainResult)(r)}
	if r.Conserved != nil {
		w.Conserved = r.Conserved.Error()
	}
	if r.Audit != nil {
		w.Audit = r.Audit.Error()
	}
	var lost *LostError
	if errors.As(r.Lost, &lost) {
		for _, e := range lost.Processes {
			w.Lost = append(w.Lost, e.Error())
		}
	}
	var unsettled *UnsettledError
	if errors.As(r.Unsettled, &unsettled) {
		w.Unsettled = &unsettled.Unsettled
	}
	return json.Marshal(w)
}

// UnmarshalJSON takes what MarshalJSON gave.
func (r *Result) UnmarshalJSON(b []byte) error {
	*r = Result{}
	w := wire{plainResult: (*plainResult)(r)}
	if err := json.Unmarshal(b, &w); err != nil {
		return err
	}
	if w.Conserved != "" {
		r.Conserved = errors.New(w.Conserved)
	}
	if w.Audit != "" {
		r.Audit = errors.New(w.Audit)
	}
	if w.Unsettled != nil {
		r.Unsettled = w.Unsettled.err()
	}
	if len(w.Lost) > 0 {
		e := &LostError{}
		for _, text := range w.Lost {
			e.Processes = append(e.Processes, errors.New(text))
		}
		r.Lost = e
	}
	return nil
}
