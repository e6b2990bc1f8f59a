// Package control is the control plane: gRPC between daemons, and from the command line to any
// daemon, over mutual TLS, a unix socket or loopback.
//
// A server answers only callers that it has authenticated: over TLS by a certificate of the cluster's CA,
// on a unix socket by the peer's user id. On loopback without TLS it trusts every process of the host.
// Other addresses need TLS, unless the administrator sets --insecure. Connections, streams, headers,
// messages and requests per second are bounded.
//
// The metadata of each call describe the caller (Caller): the build, and between daemons the cluster and
// the membership. The server refuses other builds with an error that names both. Backend.Check refuses
// removed members.
package control
