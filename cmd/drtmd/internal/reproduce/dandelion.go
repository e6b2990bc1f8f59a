package reproduce

import "time"

// dandelion are the tables and figures of the Dandelion paper.
func dandelion() System {
	const name = "dandelion"
	tatp, bank := func() benchmark { return tatpBench }, func() benchmark { return bankBench }
	modelled := func(title string, seconds time.Duration, run func(r *Run) (*Outcome, error)) Item {
		return Item{Title: title, Kind: Modelled, run: run, cost: cost{2 * time.Second, seconds * time.Second}}
	}
	threads := func(name string, b func() benchmark, dnl, fasst float64) Item {
		i := modelled("throughput by threads of four systems under "+name, 200, threadsFigure(b, dnl, fasst))
		i.Note = "the paper's text does not say which of the figures 8 to 13 has which benchmark"
		return i
	}
	ops := func(gets, puts int) Item {
		return threads(microBenchmark(gets, puts).name, func() benchmark { return microBenchmark(gets, puts) }, 0, 0)
	}
	tables := []Item{
		modelled("features and performance of five systems", 50, dandelionTable1),
		notReproducible("cluster configuration", settings),
		notReproducible("metadata of a key-value pair", inWords),
		{Title: "steps of the commit phase, four protocols", Kind: Exact, run: dandelionTable4,
			cost: cost{time.Second, time.Second}},
		modelled("TATP: batching by number of machines", 100, batchingTable(tatp, tatpBatching, [2]float64{200, 268},
			[2]float64{1.344, 2.460})),
		modelled("SmallBank: batching by number of machines", 60, batchingTable(bank, bankBatching, [2]float64{75, 102},
			[2]float64{6.80, 9.42})),
	}
	figures := []Item{
		notReproducible("software stack", drawing),
		notReproducible("the four modules", drawing),
		notReproducible("skeleton of the commit phase", drawing),
		noted(modelled("Gets of one server by threads: batching, no batching, eRPC", 10, dandelionFigure4),
			"eRPC, whose repaired bugs are not in this code"),
		modelled("throughput, bandwidth and packet rate by batch", 3, dandelionFigure5(false)),
		modelled("goodput and headers by batch", 3, dandelionFigure5(true)),
		{Title: "Gets of the hash table by batch", Kind: Measured, run: dandelionBatches,
			cost: cost{time.Second, 3 * time.Minute}},
		threads("TATP", tatp, 268, 51), threads("SmallBank", bank, 102, 23), ops(1, 0), ops(0, 1), ops(4, 0), ops(4, 2), // 8 to 13
		modelled("TATP: latency against throughput", 200, latencyFigure(tatp, false)),
		modelled("SmallBank: latency against throughput", 150, latencyFigure(bank, false)),
		modelled("TATP: tail latency of the locality optimizations", 200, latencyFigure(tatp, true)),
		modelled("SmallBank: tail latency of the locality optimizations", 150, latencyFigure(bank, true)),
		modelled("TATP: scaling to ten machines", 200, scalingFigure(tatp, 3.5, "as much as 3.5")),
		modelled("SmallBank: scaling to ten machines", 150, scalingFigure(bank, 3.5, "as much as 3.5")),
		modelled("TATP: throughput by machines with each optimization", 300, stepsFigure(tatp, 1.50, 1.10)),
		modelled("SmallBank: throughput by machines with each optimization", 200, stepsFigure(bank, 1.38, 1.10)),
		modelled("SmallBank: throughput against the size of packets", 60, dandelionFigure22),
		modelled("SmallBank: committed and aborted by number of keys", 40, dandelionFigure23),
		modelled("SmallBank with and without CXL emulation", 20, dandelionFigure24),
		{Title: "throughput per machine of large deployments, by a formula", Kind: Exact, run: dandelionFigure25,
			cost: cost{time.Second, time.Second}},
	}
	messages := Item{System: name, Named: "messages", Title: "messages of a transaction, three protocols, six workloads",
		Kind: Exact, run: dandelionMessages, cost: cost{3 * time.Second, 3 * time.Second}}
	return System{Name: name, Title: "Dandelion",
		Paper: "Gavrielatos et al., Dandelion: Smaller Clusters, Bigger Speeds, PVLDB 18(5), 2025",
		Items: append(numbered(name, false, tables, figures), messages)}
}

// noted is an item of which something is missing.
func noted(i Item, missing string) Item {
	i.Note = missing
	return i
}

// Tables 5 and 6: ht-batch, nw-batch, nw-bw, goodput and packet rate with 3 to 9 machines.
var (
	tatpBatching = [5][7]float64{{28.9, 19.3, 14.7, 11.8, 9.9, 8.4, 7.4}, {12.8, 11.8, 10.3, 8.9, 7.9, 6.9, 6.2},
		{23.9, 31.2, 35.0, 38.7, 40.5, 42.0, 42.5}, {17.3, 21.8, 23.3, 24.6, 24.6, 24.3, 23.1},
		{7.0, 10.1, 12.8, 15.6, 17.7, 20.2, 21.3}}
	bankBatching = [5][7]float64{{27.1, 19.8, 16.2, 14, 12, 10.3, 9}, {25, 18.6, 15.5, 13.5, 11.7, 10.2, 8.9},
		{27.5, 32, 34.5, 36.5, 37, 38.1, 38.5}, {20.9, 22.9, 23.1, 23.5, 22.6, 22.2, 21.3},
		{6.8, 10.1, 12.4, 14.4, 16.1, 17.9, 19.5}}
)
