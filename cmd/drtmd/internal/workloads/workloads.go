// Package workloads lists the workloads of this module.
package workloads

import (
	"drtmd/proto/workload"
	"drtmd/proto/workload/micro"
	"drtmd/proto/workload/opmix"
	"drtmd/proto/workload/retwis"
	"drtmd/proto/workload/smallbank"
	"drtmd/proto/workload/tatp"
	"drtmd/proto/workload/tpcc"
	"drtmd/proto/workload/ycsb"
)

// Specs lists the workloads that run transactions; the first is the default. A workload is added here,
// and nowhere else outside of its folder.
func Specs() []workload.Spec {
	return []workload.Spec{
		smallbank.Spec(),
		micro.Spec(),
		tatp.Spec(),
		ycsb.Spec(),
		retwis.Spec(),
		opmix.Spec(),
		tpcc.Spec(),
	}
}
