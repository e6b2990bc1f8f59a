// Package control is the control plane: gRPC between daemons, and from the command line to any
// daemon, over mutual TLS, a unix socket or loopback.
//
// A server answers nobody whom it has not authenticated: over TLS by a certificate of the cluster's
// CA, on a unix socket by the peer's user id. On loopback without TLS everybody on the host is
// trusted, and beyond loopback nothing works without TLS unless the administrator says so aloud.
// Connections, streams, headers, messages and requests per second are bounded.
//
// Each call carries who calls (Caller) in its metadata: the build, and between daemons the cluster
// and the membership. Other builds are refused in words; Backend.Check refuses removed members.
package control
