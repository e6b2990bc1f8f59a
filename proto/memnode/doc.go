// Package memnode has passive memory nodes, and the way of a client to them (rTX, sections 2.1 and 3).
//
// A memory node registers one region of memory and answers a set-up service: a client names itself and the
// queue pairs that it has made, and gets the other ends, the address and the key of the memory. After that the
// node does nothing for the client: all that follows are one-sided operations of the client's. There is no
// worker, no handler, no membership and no word between clients.
//
// # Identity and fencing
//
// A client has a number, and one session under it. While the session lives, nobody else gets the number. When
// it ends, because the client says so or its process is gone, the node closes the passive ends first: what a
// former life of the client still has on its way changes nothing any more. So the next session under this
// number may repair and reuse what the former one has left. That is the only thing that a memory node ever does
// about a client after its set-up, and no client waits for it.
//
// # Who may call what
//
// A Server has no goroutine and no lock: its service calls it, one call at a time. Server.Admit is the service;
// what carries Request and Reply between processes, and notices the end of a session, is not in this package.
// Join runs on the client's side, on its worker's thread. The memory belongs to the Server until Close.
package memnode
