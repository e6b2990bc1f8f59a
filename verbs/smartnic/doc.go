// Package smartnic is the contract between programs on NICs and what carries them (design decision 15).
//
// A program is there once on each node of a cluster. It gets the messages that programs on other NICs send it, sends to
// any node, and not only to who has asked, and does things later: so it can wait for a lock or for memory. Hosts
// are not involved.
//
// The simulator carries programs (sim.Node.Attach): messages take the time of its cost model from NIC to NIC, and its
// faults concern them. Real NICs, shared memory and Soft-RoCE do not.
//
// Two kinds of programs are planned. That of HADES is a chip, a state machine whose steps cost cycles that it states
// itself (proto/hades/hardware). Those of Xenic are fibers on NIC cores with a speed of their own; the cores, memory of
// the NIC and its DMA engine are not here yet.
package smartnic
