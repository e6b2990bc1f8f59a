package reproduce

import "time"

// rtx are the tables and figures of the rTX paper.
func rtx() System {
	const name = rtxName
	tables := []Item{
		{Title: "mixes of the YCSB benchmarks", Kind: Exact, run: workloadMixes, cost: cost{time.Second, time.Second}},
		{Title: "bytes of READ, WRITE and CAS of an insertion, three systems", Kind: Exact,
			run: insertionBytes, cost: cost{time.Second, time.Second}},
	}
	figures := []Item{
		notReproducible("disaggregated memory", drawing),
		notReproducible("key-value stores by RPC and by memory operations", drawing),
		notReproducible("system model and course of a transaction", drawing),
		notReproducible("lease lock", program),
		notReproducible("a WRITE that arrives after its lock was released", drawing),
		notReproducible("memory organization", drawing),
		notReproducible("reads and writes of a transaction", program),
		notReproducible("commit protocol", program),
		notReproducible("idempotent commit phase", program),
		notReproducible("repair of a failed transaction", program),
		{Title: "throughput of the B+ tree under YCSB A to E", Kind: Modelled,
			run: treeThroughput, cost: cost{2 * time.Second, 30 * time.Second}},
		{Title: "throughput of the RACE hash table under YCSB A to D", Kind: Modelled,
			run: hashThroughput, cost: cost{2 * time.Second, 22 * time.Second}},
		{Title: "throughput against latency of the B+ tree, uniform and skewed", Kind: Modelled,
			run: treeLatency, cost: cost{time.Second, 20 * time.Second}},
		{Title: "throughput of the B+ tree over time while a client fails", Kind: Modelled,
			run: treeFailure, cost: cost{2 * time.Second, 2 * time.Minute}},
		{Title: "insertions into the hash table over time while a rehash fails", Kind: Modelled,
			Note: "two of the three systems, as in the paper", run: rehashFailure, cost: cost{2 * time.Second, 20 * time.Second}},
		{Title: "peak throughput by part of the design", Kind: Modelled, run: factorThroughput,
			cost: cost{time.Second, 20 * time.Second}},
		{Title: "average latency by part of the design", Kind: Modelled, run: factorLatency,
			cost: cost{time.Second, 5 * time.Second}},
		{Title: "leases of live transactions that expire, by drift and by locked objects", Kind: Modelled,
			run: leaseExpiry, cost: cost{time.Second, 17 * time.Second}},
	}
	return System{Name: name, Title: "rTX",
		Paper: "Wei et al., Transactional Indexes on (RDMA or CXL-based) Disaggregated Memory with " +
			"Repairable Transaction",
		Items: byTheWallClock(name, numbered(name, false, tables, figures), map[int]Item{
			14: {Title: "throughput of the B+ tree over time while a client process is killed", Note: "two of the three systems: " +
				"clients of DTX need a membership service", run: treeFailureMeasured, cost: cost{time.Second, 4 * time.Second}},
			18: {Title: "leases of live transactions that expire, with real clocks", run: leaseExpiryMeasured,
				cost: cost{time.Second, 3 * time.Second}},
		})}
}
