package reproduce

// hades are the tables and figures of the HADES paper.
func hades() System {
	const name = waitsHADES
	tables := []Item{
		never("overheads of software transactions and how each is reduced", inWords),
		never("what a transaction does at each step", inWords),
		never("architectural parameters", "the authors' simulator: input of the model, not a result"),
		waits(name, Exact, "false positives of the Bloom filters by lines inserted"),
		waits(name, Exact, "mixes of four workloads"),
	}
	figures := []Item{
		never("record with the fields that transactions need", drawing),
		never("protocol of a distributed transaction", drawing),
		waits(name, Modelled, "execution time of the software protocol by its overheads"),
		never("conflicts between transactions", drawing),
		never("node with the hardware modules", drawing),
		never("protocol in hardware", drawing),
		never("directory locked in part by Bloom filters", drawing),
		never("write filter that finds a transaction's lines in the cache", drawing),
		waits(name, Modelled, "throughput relative to the software baseline"),
		waits(name, Modelled, "mean latency relative to the baseline, by phase"),
		waits(name, Modelled, "95th percentile of latency relative to the baseline"),
		waits(name, Modelled, "throughput by network latency, and by share of local requests"),
		waits(name, Modelled, "throughput on ten nodes of five cores"),
		waits(name, Modelled, "throughput of mixes of two workloads on five nodes of ten cores"),
		waits(name, Modelled, "throughput of mixes of four workloads on eight nodes of 25 cores"),
	}
	return System{Name: name, Title: "HADES",
		Paper: "Kokolis et al., HADES: Hardware-Assisted Distributed Transactions in the Age of Fast " +
			"Networks and SmartNICs, ISCA 2024",
		Items: numbered(name, true, tables, figures)}
}
