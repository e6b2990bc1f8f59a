// Package smartnic is the contract between programs on NICs and what carries them (design decision 15), and what such
// programs stand on.
//
// # Chips
//
// NIC carries a program that is there once on each node, as a state machine whose steps cost what it states itself
// (HADES, proto/hades/hardware). It gets the messages that programs on other NICs send it, sends to any node, and not
// only to who has asked, and does things later. The simulator carries it (sim.Node.Attach).
//
// # Cores
//
// Board is a NIC with cores (Xenic §3, §4.3). Its programs are fibers on fiber.Workers, one for each core, so they
// await DMA, send to a third node and wait for locks like any fiber. A Core joins a worker as a part and runs its burst
// loop (§4.3.2): in each pass it takes a burst of packets and DMA completions, gives every message to its handler, lets
// fibers run, and at the end submits the vectors of DMAs (§4.3.1) and sends what was gathered for each destination in
// as few packets as it fits in. A Port is the host's end of the queues between host and NIC. Batching says
// how much of that is on.
//
//	message in a packet   0 kind 1 | 1 sending core or thread 1 | 2 length 2 | 4 payload
//
// Messages between two ends arrive in order and once, unless one of the nodes dies: then all that is under way is lost.
// A message goes to a core that the sender names. To the sending core itself it needs no
// packet; cores of one NIC share its memory, and send each other nothing.
//
// The simulator's model is sim.Node.AttachBoard; its constants are in the section cores of the preset liquidio3.
// On shared memory and Soft-RoCE a worker plays all cores of its node's NIC, an emulation (package node).
//
// # Who may call what
//
// A Core or a Port belongs to its worker: its handlers and fibers call it. Handlers run outside of fibers and must not
// wait; what must wait starts a fiber. Payloads are the carrier's when a handler has returned. A Board belongs to the
// event loop. Nothing allocates once buffers have grown.
package smartnic
