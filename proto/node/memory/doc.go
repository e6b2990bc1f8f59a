// Package memory is the set-up service of a memory node (package memnode) over TCP, or a unix socket on one host.
//
// A client dials the node, sends one request, and keeps the connection: that is its session. When the connection
// ends, because the client closes it or its process is gone, the node fences the client and its number is free. A
// process that is merely stopped keeps its connection, and so its number. A host that is gone is noticed by TCP's
// keep-alive probes, within about 15 s.
//
//	way, session, err := memory.Join(ctx, "10.0.0.1:7480", 0, workers, verbs.ConnectAttr{})
//
// Request and reply are one line of JSON each. The service takes whoever reaches it, and a client may do to the
// memory whatever it likes: it is for a trusted network.
//
// Serve may be called from any goroutine; it serializes what it asks of the memnode.Server, which nobody else may
// call meanwhile.
package memory
