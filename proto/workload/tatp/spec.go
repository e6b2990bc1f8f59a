package tatp

import (
	"fmt"

	"drtmd/proto/option"
	"drtmd/proto/workload"
)

// Options by name.
const (
	optSubscribers = "subscribers"
	optValueBytes  = "value-bytes"
	optNumbers     = "numbers"
	optFailed      = "failed-commit"
	optFar         = "far"
)

// mostBytes of a value on a command line.
const mostBytes = 1 << 12

// Spec describes the workload.
func Spec() workload.Spec {
	d := Default(1)
	return workload.Spec{
		Name: "tatp",
		Doc:  "a telecom's register of subscribers, seven short transactions",
		Options: option.List{
			option.Int(optSubscribers, d.Subscribers, minSubscribers, maxSubscribers, "`N` subscribers per node; the "+
				"specification has 1 million in all"),
			option.Int(optValueBytes, 0, 0, mostBytes, "pad values to `N` bytes: 48 in Dandelion; 0: no padding"),
			option.Bool(optNumbers, true, "look up subscribers by number, as in the specification; not in Dandelion"),
			option.Bool(optFailed, false, "commit transactions that do not find their record, as FaSST and "+
				"Dandelion do; else roll them back"),
			option.Float(optFar, 0, 0, 100, "`PERCENT` of the subscribers are of another node than the client; 0: all nodes' "+
				"are alike"),
		},
		Remote: []string{optFar},
		Transactions: []workload.Transaction{
			{Name: GetSubscriberData.String(), Percent: 35, ReadOnly: true, Doc: "reads a subscriber"},
			{Name: GetNewDestination.String(), Percent: 10, ReadOnly: true, Doc: "reads a facility and one to three " +
				"call forwardings"},
			{Name: GetAccessData.String(), Percent: 35, ReadOnly: true, Doc: "reads a kind of access"},
			{Name: UpdateSubscriberData.String(), Percent: 2, Doc: "writes a subscriber and a facility"},
			{Name: UpdateLocation.String(), Percent: 14, Doc: "looks a number up, writes the subscriber"},
			{Name: InsertCallForwarding.String(), Percent: 2, Doc: "looks a number up, reads a facility, inserts a " +
				"call forwarding"},
			{Name: DeleteCallForwarding.String(), Percent: 2, Doc: "looks a number up, deletes a call forwarding"},
		},
		Tables: []workload.Table{{Name: "subscriber", Doc: "one of each subscriber"},
			{Name: "number", Doc: "a subscriber's number to its identity"},
			{Name: "access-info", Doc: "one to four of a subscriber"},
			{Name: "special-facility", Doc: "one to four of a subscriber"},
			{Name: "call-forwarding", Doc: "none to three of a facility"}},
		Verify: "the number of call forwardings agrees with committed insertions and " +
			"deletions, and each has a value of its key",
		Words: words,
		New: func(nodes int, v option.Values) (workload.Workload, error) {
			far := v.Float(optFar) / 100
			w, err := New(Options{Nodes: nodes, Subscribers: v.Int(optSubscribers), ValueBytes: v.Int(optValueBytes),
				NoNumbers: !v.Bool(optNumbers), FailedCommit: v.Bool(optFailed), Anywhere: far == 0, Far: far})
			if err != nil {
				return nil, err
			}
			return w, nil
		},
	}
}

func words(_ int, v option.Values) string {
	text := fmt.Sprintf("%d subscribers per node, values ", v.Int(optSubscribers))
	if b := v.Int(optValueBytes); b > 0 {
		text += fmt.Sprintf("of %d bytes or more", b)
	} else {
		text += "as in the schema"
	}
	if !v.Bool(optNumbers) {
		text += ", no look-ups of numbers"
	}
	if far := v.Float(optFar); far > 0 {
		text += fmt.Sprintf(", %g %% of the subscribers on another node", far)
	}
	if v.Bool(optFailed) {
		return text + ", failed look-ups commit"
	}
	return text + ", failed look-ups are rolled back"
}
