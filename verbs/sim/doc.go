// Package sim is the provider of package verbs whose fabric is a discrete-event model: RDMA
// NICs, links and a switch in deterministic virtual time.
//
// # What it is
//
// A World owns one heap of events, the virtual time and the nodes. Node.Open gives an ordinary
// verbs.Context; what is posted there travels through modelled resources (the NIC's engines,
// PCIe, the link, the switch's port) and completes some microseconds of virtual time later.
// The semantics are those of the contract: RC is reliable and in order, with retries, RNR and
// timeouts; UD is lossy; keys, bounds and rights are checked with the specification's statuses;
// each 64-byte line is read and written atomically, with the line words of design decision 6;
// the lines of a WRITE become visible one after the other, in ascending order, at events of
// their own, so a READ that overlaps one can be torn as on hardware.
//
// # Determinism
//
// There is no goroutine, no wall clock, no global random source, no select, and no decision
// comes from the order of a map. Everything random comes from World.Rand, one generator per
// named stream, so that a draw in one place does not shift another. The same Config and the
// same program give the same trace, whose hash is World.Hash: bit for bit, on every machine and
// at every GOMAXPROCS. Addresses of memory differ between runs; they are never hashed, and a
// program that decides something by an address is not deterministic.
//
// # Time and cost
//
// Time is integer picoseconds. It passes only through a CostModel: plain structs, a YAML file, or one of the
// presets. Bottlenecks are not configured: each resource is busy until a time, and serves requests in order of
// arrival. docs/SIM.md describes the model and its simplifications.
//
// # Faults
//
// A Schedule is a list of Faults: data that can be printed, parsed, drawn from a seed and
// shrunk. World.Install arms one; faults strike at a time, or at the k-th occurrence of a named
// protocol step (World.Step).
//
// # Concurrency and memory
//
// A World and everything in it belong to one goroutine (or to coroutines of which one runs at a
// time). Several worlds may run in parallel; they share nothing. Registered memory is on the Go
// heap, aligned to 4096 bytes (64 in race builds); it is released to the collector by MR.Close,
// or by the crash of its node, if it was not kept. Line words are maintained for every access
// by a NIC, local deliveries included; plain CPU stores do not touch them.
//
// # What it does not do
//
// No congestion control, no per-packet interleaving of long messages on a link, no cache of QP
// state in the NIC, no pacing of PCIe by its flow-control credits.
package sim
