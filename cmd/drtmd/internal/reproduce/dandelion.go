package reproduce

import "time"

// dandelion are the tables and figures of the Dandelion paper.
func dandelion() System {
	const name = waitsDandelion
	threads := func() Item {
		i := waitsFor(name, Modelled, "throughput by threads of four systems under one of TATP, SmallBank, O(1,0), O(0,1), "+
			"O(4,0), O(4,2)")
		i.Note = "the paper's text does not say which of the figures 8 to 13 has which benchmark"
		return i
	}
	tables := []Item{
		waitsFor(name, Modelled, "features and performance of five systems"),
		notReproducible("cluster configuration", settings),
		notReproducible("metadata of a key-value pair", inWords),
		{Title: "steps of the commit phase, four protocols", Kind: Exact, run: dandelionTable4,
			cost: cost{time.Second, time.Second}},
		waitsFor(name, Modelled, "TATP: batching by number of machines"),
		waitsFor(name, Modelled, "SmallBank: batching by number of machines"),
	}
	figures := []Item{
		notReproducible("software stack", drawing),
		notReproducible("the four modules", drawing),
		notReproducible("skeleton of the commit phase", drawing),
		waitsFor(name, Modelled, "Gets of one server by threads: batching, no batching, eRPC"),
		waitsFor(name, Modelled, "throughput, bandwidth and packet rate by batch"),
		waitsFor(name, Modelled, "goodput and headers by batch"),
		waitsFor(name, Measured, "Gets of the hash table by batch"),
		threads(), threads(), threads(), threads(), threads(), threads(), // 8 to 13
		waitsFor(name, Modelled, "TATP: latency against throughput"),
		waitsFor(name, Modelled, "SmallBank: latency against throughput"),
		waitsFor(name, Modelled, "TATP: tail latency of the locality optimizations"),
		waitsFor(name, Modelled, "SmallBank: tail latency of the locality optimizations"),
		waitsFor(name, Modelled, "TATP: scaling to ten machines"),
		waitsFor(name, Modelled, "SmallBank: scaling to ten machines"),
		waitsFor(name, Modelled, "TATP: throughput by machines with each optimization"),
		waitsFor(name, Modelled, "SmallBank: throughput by machines with each optimization"),
		waitsFor(name, Modelled, "SmallBank: throughput against the size of packets"),
		waitsFor(name, Modelled, "SmallBank: committed and aborted by number of keys"),
		waitsFor(name, Modelled, "SmallBank with and without CXL emulation"),
		waitsFor(name, Exact, "throughput per machine of large deployments, by a formula"),
	}
	return System{Name: name, Title: "Dandelion",
		Paper: "Gavrielatos et al., Dandelion: Smaller Clusters, Bigger Speeds, PVLDB 18(5), 2025",
		Items: numbered(name, false, tables, figures)}
}
