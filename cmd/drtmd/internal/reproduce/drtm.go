package reproduce

import "time"

// drtm are the tables and figures of the DrTM paper.
func drtm() System {
	tables := []Item{
		{Title: "working sets of the transactions of SmallBank and TPC-C", Kind: Exact,
			Note: "sizes of ours: the paper's are of an unpublished build; drtm/figure-1 has the fallback path of ours",
			run:  tableI, cost: cost{50 * time.Millisecond, 50 * time.Millisecond}},
		notReproducible("challenges, designs and their benefits", inWords),
		{Title: "what local and remote operations do to a record's state and value", Kind: Exact,
			protocol: drtmName, run: tableIII, cost: cost{200 * time.Millisecond, 200 * time.Millisecond}},
		{Title: "which accesses to a record conflict, by interleaving", Kind: Exact,
			protocol: drtmName, run: tableIV, cost: cost{200 * time.Millisecond, 200 * time.Millisecond}},
		notReproducible("RDMA-friendly hash tables compared", inWords),
		{Title: "READs per look-up, by occupancy and distribution", Kind: Exact,
			run: tableVI, cost: cost{1200 * time.Millisecond, 10 * time.Second}},
		{Title: "transaction mix of SmallBank and TPC-C", Kind: Exact,
			Note: "TPC-C's half is not here; go test ./proto/workload/tpcc tests its mix",
			run:  tableVII, cost: cost{50 * time.Millisecond, 90 * time.Millisecond}},
		{Title: "TPC-C with and without logging, six machines", Kind: Modelled,
			protocol: drtmName, run: ofFullRuns(tableVIII), cost: cost{2 * time.Second, 30 * time.Second}},
	}
	figures := []Item{
		{Title: "SmallBank and TPC-C by threads, each transaction one region", Kind: Modelled,
			Note:     "Silo and DBX, the other systems",
			protocol: drtmName, run: ofFullRuns(figure1), cost: cost{time.Second, 20 * time.Second}},
		{Title: "abort rate of a region by the size of its working set", Kind: Exact,
			run: figure2, cost: cost{70 * time.Millisecond, 130 * time.Millisecond}},
		{Title: "throughput and latency of READs by payload", Kind: Modelled,
			Note: "TCP/IP, the other curve, is not modelled",
			run:  figure3, cost: cost{130 * time.Millisecond, 240 * time.Millisecond}},
		notReproducible("architecture", drawing),
		notReproducible("example of transaction chopping", drawing),
		notReproducible("delivery and payment made commutative", drawing),
		{Title: "chopping graphs of TPC-C, default and optimized", Kind: Exact,
			Note: "by the caption and the text; drtmd chop tpcc --svg draws it",
			run:  figure7, cost: cost{30 * time.Millisecond, 30 * time.Millisecond}},
		notReproducible("how local and remote accesses can conflict",
			"a drawing; its cases (b) to (d) are run by drtm/table-4"),
		notReproducible("transaction interface and locks", program),
		notReproducible("remote and local accesses, read-only transactions", program),
		notReproducible("logging and recovery", drawing),
		notReproducible("cluster hash table and location cache", drawing),
		notReproducible("key-value stores by value size, load and cache size",
			"needs Pilaf, FaRM-KV and the authors' NICs; the READs per look-up that the text "+
				"gives, 0.178 and 0.024, are rows of drtm/table-6"),
		notReproducible("false aborts by softtime", drawing),
		{Title: "SmallBank and TPC-C by threads: Silo, DBX, DrTM", Kind: Modelled, Note: "Silo and DBX, the other systems",
			protocol: drtmName, run: ofFullRuns(figure15), cost: cost{time.Second, 20 * time.Second}},
		{Title: "TPC-C by machines and threads: Calvin, DrTM", Kind: Modelled, Note: "Calvin, the other system",
			protocol: drtmName, run: ofFullRuns(figure16), cost: cost{2 * time.Second, 100 * time.Second}},
		{Title: "SmallBank by machines and threads", Kind: Modelled,
			Note:     "the curves with more than 1 % distributed, of which the paper prints no number",
			protocol: drtmName, run: figure17, cost: cost{4 * time.Second, 110 * time.Second}},
		{Title: "TPC-C by logical nodes, and by cross-warehouse accesses", Kind: Modelled,
			protocol: drtmName, run: ofFullRuns(figure18), cost: cost{4 * time.Second, 100 * time.Second}},
		{Title: "microbenchmarks with and without read leases", Kind: Modelled,
			protocol: drtmName, run: ofFullRuns(figure19), cost: cost{2 * time.Second, 60 * time.Second}},
		{Title: "TPC-C by machines and threads: DrTM, DrTM-OCC", Kind: Modelled,
			Note: "of the half by threads only 16 on each of six machines",
			run:  ofFullRuns(figure20), cost: cost{4 * time.Second, 80 * time.Second}},
	}
	return System{Name: drtmName, Title: "DrTM",
		Paper: "Chen et al., Fast In-Memory Transaction Processing Using RDMA and HTM, " +
			"ACM TOCS 35(1), 2017",
		Items: numbered(drtmName, true, tables, figures)}
}
