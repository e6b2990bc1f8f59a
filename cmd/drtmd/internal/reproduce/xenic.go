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
			Note: "counting threads in the model: the counts are the paper's", run: xenicTable3,
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
		{Title: "throughput and median latency of four workloads", Kind: Modelled,
			run: figure8, cost: cost{25 * time.Second, 6 * time.Minute}},
		{Title: "gain of each part of the design", Kind: Modelled, run: figure9, cost: cost{10 * time.Second, 90 * time.Second}},
	}
	return System{Name: name, Title: "Xenic",
		Paper: "Schuh et al., Xenic: SmartNIC-Accelerated Distributed Transactions, SOSP 2021",
		Items: numbered(name, false, tables, figures)}
}
