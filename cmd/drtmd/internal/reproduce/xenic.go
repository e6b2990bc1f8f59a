package reproduce

// xenic are the tables and figures of the Xenic paper.
func xenic() System {
	const name = waitsXenic
	tables := []Item{
		never("speed of NIC cores and host cores", "the authors' NIC and host: input of the model, "+
			"not a result"),
		waits(name, Exact, "objects and round trips per look-up at 90 % occupancy"),
		waits(name, Exact, "normalized threads of Xenic, DrTM+H and FaSST"),
	}
	figures := []Item{
		never("on-path and off-path SmartNICs", drawing),
		waits(name, Modelled, "latency of remote operations from host and NIC"),
		waits(name, Modelled, "throughput of remote memory writes, with and without batching"),
		waits(name, Modelled, "throughput and latency of the DMA engine"),
		never("data store", drawing),
		never("one server", drawing),
		waits(name, Exact, "commit messages of a transaction on a local and a remote shard"),
		waits(name, Modelled, "throughput and median latency of four workloads"),
		waits(name, Modelled, "gain of each part of the design"),
	}
	return System{Name: name, Title: "Xenic",
		Paper: "Schuh et al., Xenic: SmartNIC-Accelerated Distributed Transactions, SOSP 2021",
		Items: numbered(name, false, tables, figures)}
}
