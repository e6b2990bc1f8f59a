package reproduce

import "time"

// xenic are the tables and figures of the Xenic paper.
func xenic() System {
	const name = xenicName
	tables := []Item{
		notReproducible("speed of NIC cores and host cores", "the authors' NIC and host: input of the model, "+
			"not a result"),
		{Title: "objects and round trips per look-up at 90 % occupancy", Kind: Exact,
			run: xenicTable2, cost: cost{260 * time.Millisecond, 4600 * time.Millisecond}},
		{Title: "normalized threads of Xenic, DrTM+H and FaSST", Kind: Exact,
			Note: "the counts are the paper's; xenic/table-3-counted counts in the model", run: xenicTable3,
			cost: cost{20 * time.Millisecond, 20 * time.Millisecond}},
	}
	figures := []Item{
		notReproducible("on-path and off-path SmartNICs", drawing),
		{Title: "latency of remote operations from host and NIC", Kind: Modelled,
			Note: "two-sided RPCs of the ConnectX-5", run: xenicFigure2, cost: cost{30 * time.Millisecond, 30 * time.Millisecond}},
		{Title: "throughput of remote memory writes, with and without batching", Kind: Modelled, run: xenicFigure3,
			cost: cost{400 * time.Millisecond, 600 * time.Millisecond}},
		{Title: "throughput and latency of the DMA engine", Kind: Modelled, run: xenicFigure4,
			cost: cost{150 * time.Millisecond, 250 * time.Millisecond}},
		notReproducible("data store", drawing),
		notReproducible("one server", drawing),
		{Title: "commit messages of a transaction on a local and a remote shard", Kind: Exact, run: xenicFigure7,
			cost: cost{20 * time.Millisecond, 20 * time.Millisecond}},
		{Title: "throughput and median latency of four workloads"}, {Title: "gain of each part of the design"}, // in parts
	}
	items := numbered(name, false, tables, figures)
	part := func(title string, run func(*Run) (*Outcome, error), quick, seed time.Duration) Item {
		return Item{Title: title, Kind: Modelled, run: run, cost: cost{quick, seed}}
	}
	items = inParts(items, 8, part("throughput and median latency of new orders", figure8Orders, 8*time.Second, 2*time.Minute),
		part("throughput and median latency of TPC-C", figure8Mix, 8*time.Second, 2*time.Minute),
		part("throughput and median latency of Retwis", figure8Of(retwisTitle), 8*time.Second, 2*time.Minute),
		part("throughput and median latency of SmallBank", figure8Of(smallbankTitle), 8*time.Second, 2*time.Minute))
	items = inParts(items, 9, part("throughput of Retwis, part by part of the design", figure9Throughput, 5*time.Second, time.Minute),
		part("latency of SmallBank, part by part of the design", figure9Latency, 5*time.Second, time.Minute))
	items = byTheWallClock(name, items, map[int]Item{9: {Title: "CPU time with batching and multi-hop on and off, on shared memory",
		Note: "two of the parts; workers play the NICs", run: figure9Measured, cost: cost{2 * time.Second, 30 * time.Second}}})
	items = append(items, Item{System: name, Named: "table-3-counted", Title: "fewest threads with 95 % of the highest throughput",
		Kind: Modelled, Note: "TPC-C, as the model charges nothing for the work of B+ trees", run: countedTable,
		cost: cost{time.Second, 6 * time.Minute}})
	return System{Name: name, Title: "Xenic",
		Paper: "Schuh et al., Xenic: SmartNIC-Accelerated Distributed Transactions, SOSP 2021",
		Items: items}
}
