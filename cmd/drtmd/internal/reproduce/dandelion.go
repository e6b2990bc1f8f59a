package reproduce

// dandelion are the tables and figures of the Dandelion paper.
func dandelion() System {
	const name = waitsDandelion
	threads := func(what string) Item {
		return waits(name, Modelled, what+": throughput by threads, four systems")
	}
	tables := []Item{
		waits(name, Modelled, "features and performance of five systems"),
		never("cluster configuration", settings),
		never("metadata of a key-value pair", inWords),
		waits(name, Exact, "steps of the commit phase, four protocols"),
		waits(name, Modelled, "TATP: batching by number of machines"),
		waits(name, Modelled, "SmallBank: batching by number of machines"),
	}
	figures := []Item{
		never("software stack", drawing),
		never("the four modules", drawing),
		never("skeleton of the commit phase", drawing),
		waits(name, Modelled, "Gets of one server by threads: batching, no batching, eRPC"),
		waits(name, Modelled, "throughput, bandwidth and packet rate by batch"),
		waits(name, Modelled, "goodput and headers by batch"),
		waits(name, Measured, "Gets of the hash table by batch"),
		threads("first of six benchmarks"), threads("second of six benchmarks"),
		threads("third of six benchmarks"), threads("fourth of six benchmarks"),
		threads("fifth of six benchmarks"), threads("sixth of six benchmarks"),
		waits(name, Modelled, "TATP: latency against throughput"),
		waits(name, Modelled, "SmallBank: latency against throughput"),
		waits(name, Modelled, "TATP: tail latency of the locality optimizations"),
		waits(name, Modelled, "SmallBank: tail latency of the locality optimizations"),
		waits(name, Modelled, "TATP: scaling to ten machines"),
		waits(name, Modelled, "SmallBank: scaling to ten machines"),
		waits(name, Modelled, "TATP: throughput by machines with each optimization"),
		waits(name, Modelled, "SmallBank: throughput by machines with each optimization"),
		waits(name, Modelled, "SmallBank: throughput against the size of packets"),
		waits(name, Modelled, "SmallBank: committed and aborted by number of keys"),
		waits(name, Modelled, "SmallBank with and without CXL emulation"),
		waits(name, Exact, "throughput per machine of large deployments, by a formula"),
	}
	return System{Name: name, Title: "Dandelion",
		Paper: "Gavrielatos et al., Dandelion: Smaller Clusters, Bigger Speeds, PVLDB 18(5), 2025",
		Items: numbered(name, false, tables, figures)}
}
