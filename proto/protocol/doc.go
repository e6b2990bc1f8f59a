// Package protocol is how a protocol describes itself, and what its engines are made from.
//
// A protocol's package exports a function that gives its Protocol: name, needs, options, marked
// steps, deliberate bugs, and New. The composition root (package node) lists these; everything else
// carries a protocol by what it says of itself, and never by its name (internal/testkit/archtest
// checks that).
//
// # Who may call what
//
// A Protocol is a value without state: it may be copied and used by any goroutine. An Env belongs to
// its worker's thread, as the engine does that is made from it.
package protocol
