package opmix

import (
	"fmt"

	"drtmd/proto/option"
	"drtmd/proto/workload"
	"drtmd/proto/workload/keyvalue"
)

// Options by name.
const (
	optGets = "gets"
	optPuts = "puts"
	optFar  = "far"
	optHot  = "hot"
)

// Spec describes the workload.
func Spec() workload.Spec {
	d := Default(1)
	return workload.Spec{
		Name: "opmix",
		Doc:  "O(G,P): each transaction gets G records and puts P others (Dandelion §7)",
		Options: append(option.List{
			option.Int(optGets, d.Gets, 0, keyvalue.MaxOps, "a transaction gets `G` records"),
			option.Int(optPuts, d.Puts, 0, keyvalue.MaxOps, "a transaction puts `P` other records"),
			option.Float(optFar, d.Remote, Uniform, 100, "`PERCENT` of the records are of another node than the client; 0: "+
				"records are of any node"),
			option.Int(optHot, d.Hot, 0, 1<<20, "one get is of `N` hot records, as many of each node; 0: of none"),
			option.Bool(keyvalue.OptInteractive, d.Interactive, "transactions do not declare their records: a client asks for all "+
				"that it gets, polls, and puts into the transaction's cache (Dandelion §3); for protocols without declarations"),
		}, keyvalue.Options(d.Keys, d.ValueBytes, d.Theta)...),
		Transactions: []workload.Transaction{{Name: name(d.Gets, d.Puts), Percent: 100,
			Doc: "gets G records, and puts P others without a look at them"}},
		Tables: []workload.Table{{Name: "records", Doc: "records on all nodes"}},
		Verify: "every record has a value that was written for its key",
		Words: func(_ int, v option.Values) string {
			text := name(v.Int(optGets), v.Int(optPuts)) + ", " + keyvalue.Words(v)
			if far := v.Float(optFar); far != Uniform {
				text += fmt.Sprintf(", %g %% of another node", far)
			}
			if hot := v.Int(optHot); hot > 0 {
				text += fmt.Sprintf(", one of %d hot ones", hot)
			}
			if v.Bool(keyvalue.OptInteractive) {
				text += ", interactive"
			}
			return text
		},
		New: func(nodes int, v option.Values) (workload.Workload, error) {
			w, err := New(Options{Nodes: nodes, Keys: v.Int(keyvalue.OptKeys), KeyBytes: v.Int(keyvalue.OptKeyBytes),
				ValueBytes: v.Int(keyvalue.OptValueBytes), Theta: v.Float(keyvalue.OptTheta),
				Gets: v.Int(optGets), Puts: v.Int(optPuts), Remote: v.Float(optFar), Hot: v.Int(optHot),
				Interactive: v.Bool(keyvalue.OptInteractive)})
			if err != nil {
				return nil, err
			}
			return w, nil
		},
	}
}

// name of a mix.
func name(gets, puts int) string { return fmt.Sprintf("O(%d,%d)", gets, puts) }
