package reproduce

import "time"

// hades are the tables and figures of the HADES paper.
func hades() System {
	const name = hadesName
	tables := []Item{
		notReproducible("overheads of software transactions and how each is reduced", inWords),
		notReproducible("what a transaction does at each step", inWords),
		{Title: "architectural parameters: storage of filters and tags", Kind: Exact,
			Note: "its other parameters, which are input of the model and no result",
			run:  hadesTable3, cost: cost{20 * time.Millisecond, 20 * time.Millisecond}},
		{Title: "false positives of the Bloom filters by lines inserted; false conflicts and evictions of runs", Kind: Exact,
			Note: "with --quick evictions and false conflicts of runs",
			run:  hadesTable4, cost: cost{230 * time.Millisecond, 40 * time.Second}},
		notReproducible("mixes of four workloads", "input of Figure 15, which runs them"),
	}
	figures := []Item{
		notReproducible("record with the fields that transactions need", drawing),
		notReproducible("protocol of a distributed transaction", drawing),
		{Title: "execution time of the software protocol by its overheads", Kind: Modelled, protocol: farmName,
			run: hadesFigure3, cost: cost{500 * time.Millisecond, 3 * time.Second}},
		notReproducible("conflicts between transactions", drawing),
		notReproducible("node with the hardware modules", drawing),
		notReproducible("protocol in hardware", drawing),
		notReproducible("directory locked in part by Bloom filters", drawing),
		notReproducible("write filter that finds a transaction's lines in the cache", drawing),
		{Title: "throughput relative to the software baseline", Kind: Modelled, protocol: hadesName,
			run: hadesFigure9, cost: cost{4 * time.Second, 30 * time.Second}},
		{Title: "mean latency relative to the baseline", Kind: Modelled, protocol: hadesName,
			run: hadesFigure10, cost: cost{4 * time.Second, 30 * time.Second}},
		{Title: "95th percentile of latency relative to the baseline", Kind: Modelled, protocol: hadesName,
			run: hadesFigure11, cost: cost{4 * time.Second, 30 * time.Second}},
		{Title: "throughput by network latency, and by share of local requests", Kind: Modelled, protocol: hadesName,
			run: hadesFigure12, cost: cost{5 * time.Second, 3 * time.Minute}},
		{Title: "throughput on ten nodes of five cores", Kind: Modelled, protocol: hadesName,
			run: hadesFigure13, cost: cost{5 * time.Second, time.Minute}},
		{Title: "throughput of mixes of two workloads on five nodes of ten cores", Kind: Modelled, protocol: hadesName,
			run: hadesFigure14, cost: cost{2 * time.Second, time.Minute}},
		{Title: "throughput of mixes of four workloads on eight nodes of 25 cores", Kind: Modelled, protocol: hadesName,
			run: hadesFigure15, cost: cost{2 * time.Second, 3 * time.Minute}},
	}
	return System{Name: name, Title: "HADES",
		Paper: "Kokolis et al., HADES: Hardware-Assisted Distributed Transactions in the Age of Fast " +
			"Networks and SmartNICs, ISCA 2024",
		Items: numbered(name, true, tables, figures)}
}
