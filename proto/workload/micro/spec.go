package micro

import (
	"fmt"

	"drtmd/proto/option"
	"drtmd/proto/workload"
)

// Options by name.
const (
	optKeys        = "keys"
	optDistributed = "distributed"
)

// Spec describes the workload.
func Spec() workload.Spec {
	d := Default(2)
	return workload.Spec{
		Name: "micro",
		Doc:  "inserts, deletes, absent reads, dependent transactions on few records",
		Options: option.List{
			option.Int(optKeys, d.Keys, minKeys, maxKeys, "`N` keys of each table per node; few keys conflict "+
				"often"),
			option.Float(optDistributed, d.Distributed, 0, 1, "probability `P` that a record is on another node; with one node: 0"),
		},
		Remote: []string{optDistributed},
		Transactions: []workload.Transaction{
			{Name: Increment.String(), Percent: 15, Doc: "raises one to three counters"},
			{Name: Insert.String(), Percent: 15, Doc: "adds an item, or is rolled back because it is there"},
			{Name: Delete.String(), Percent: 10, Doc: "removes an item, or is rolled back because it is not there"},
			{Name: Move.String(), Percent: 10, Doc: "removes one item and adds another, or is rolled back"},
			{Name: Look.String(), Percent: 10, ReadOnly: true, Doc: "reads two items that are there or not"},
			{Name: ReadMany.String(), Percent: 10, ReadOnly: true, Doc: "reads eight counters"},
			{Name: Follow.String(), Percent: 10, Doc: "raises the counter that a pointer names"},
			{Name: Redirect.String(), Percent: 5, Doc: "makes a pointer name another counter"},
			{Name: Depend.String(), Percent: 15, Doc: "reads two counters and raises a third"},
		},
		Tables: []workload.Table{{Name: "counters", Doc: "numbers that transactions raise"},
			{Name: "items", Doc: "records that come and go"}, {Name: "pointers", Doc: "keys of counters"}},
		Verify: "counters and the number of items agree with the committed transactions",
		Words: func(_ int, v option.Values) string {
			return fmt.Sprintf("%d keys of each table per node, %g %% of the records on other nodes",
				v.Int(optKeys), 100*v.Float(optDistributed))
		},
		New: func(nodes int, v option.Values) (workload.Workload, error) {
			m, err := New(Options{Nodes: nodes, Keys: v.Int(optKeys), Distributed: v.Float(optDistributed)})
			if err != nil {
				return nil, err
			}
			return m, nil
		},
	}
}
