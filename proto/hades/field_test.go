package hades_test

import (
	"drtmd/proto"
	"drtmd/proto/workload"
	"drtmd/proto/workload/rows"
)

// Few records of four lines, of which transactions access fields.
const (
	farField = 150 // in the third line
	fewRows  = 6   // per node
)

// rowsOf is their workload.
func rowsOf(nodes int) workload.Workload {
	w, err := rows.New(rows.Options{Nodes: nodes, Rows: fewRows, Distributed: 0.5})
	if err != nil {
		panic(err)
	}
	return w
}

func rowKey(node, i int) proto.Key { return proto.Key(node)<<48 | proto.Key(i) }
