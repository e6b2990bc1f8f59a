package report

// Nature says which part of a run is real, emulated or modelled: without it a number cannot be
// compared with one of a paper.
type Nature struct{ Part, Is, How string }

// Natures of the parts of the run.
func (b *Bench) Natures() []Nature {
	all := []Nature{{"transactions", "real", "store, protocol, history and check are the same code " +
		"on every transport"}}
	switch {
	case b.Virtual:
		return append(all, Nature{"network and NICs", "modelled", "cost model " + b.CostModel},
			Nature{"time", "modelled", "virtual: every rate and latency follows from the cost model"},
			Nature{"CPU time", "modelled", "charged where the protocols say so"}, htmEmulated)
	case b.Transport == "shm":
		return append(all, Nature{"verbs", "emulated", "carried out by the initiator's CPU on shared " +
			"memory: there is no network, and latencies say nothing about one"},
			Nature{"time", "real", "of this machine"}, htmEmulated)
	case b.Transport == "ibv":
		return append(all, Nature{"verbs", "real", "carried out by device " + b.Device +
			" through libibverbs; an rxe device (Soft-RoCE) is software in the kernel, no RDMA NIC"},
			Nature{"time", "real", "of this machine"},
			Nature{"hardware transactional memory", "emulated", "by locks of records through the NIC; " +
				"its cost is the emulation's, not that of Intel's RTM"})
	}
	return append(all, Nature{"transport " + b.Transport, "unknown", "this version does not know it"})
}

var htmEmulated = Nature{"hardware transactional memory", "emulated", "by a word beside each " +
	"line of 64 bytes; its cost is the emulation's, not that of Intel's RTM"}

// natureLine is what the numbers of a plot are, in a line.
func (b *Bench) natureLine() string {
	switch {
	case b.Virtual:
		return "Modelled in virtual time, cost model " + b.CostModel + "."
	case b.Transport == "shm":
		return "Measured in real time; verbs emulated on shared memory."
	}
	return "Measured in real time, transport " + b.Transport + ", device " + b.Device + "."
}
