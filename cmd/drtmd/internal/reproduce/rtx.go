package reproduce

// rtx are the tables and figures of the rTX paper.
func rtx() System {
	const name = waitsRTX
	tables := []Item{
		waits(name, Exact, "mixes of the YCSB benchmarks"),
		waits(name, Exact, "bytes of READ, WRITE and CAS of an insertion, three systems"),
	}
	figures := []Item{
		never("disaggregated memory", drawing),
		never("key-value stores by RPC and by memory operations", drawing),
		never("system model and course of a transaction", drawing),
		never("lease lock", program),
		never("a WRITE that arrives after its lock was released", drawing),
		never("memory organization", drawing),
		never("reads and writes of a transaction", program),
		never("commit protocol", program),
		never("idempotent commit phase", program),
		never("repair of a failed transaction", program),
		waits(name, Modelled, "throughput of the B+ tree under YCSB A to E"),
		waits(name, Modelled, "throughput of the RACE hash table under YCSB A to D"),
		waits(name, Modelled, "throughput against latency of the B+ tree, uniform and skewed"),
		waits(name, Modelled, "throughput of the B+ tree over time while a client fails"),
		waits(name, Modelled, "insertions into the hash table over time while a rehash fails"),
		waits(name, Modelled, "peak throughput by part of the design"),
		waits(name, Modelled, "average latency by part of the design"),
		waits(name, Measured, "false expiry of leases by drift and by locked items"),
	}
	return System{Name: name, Title: "rTX",
		Paper: "Wei et al., Transactional Indexes on (RDMA or CXL-based) Disaggregated Memory with " +
			"Repairable Transaction",
		Items: numbered(name, false, tables, figures)}
}
