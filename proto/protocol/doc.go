// Package protocol defines the description of a protocol (Protocol), and the environment from which its
// engines are made (Env).
//
// A protocol's package exports a function that returns its Protocol: name, needs, options, marked steps,
// deliberate bugs, and New. The composition root (package node) lists these. All other packages use the
// description of a protocol, never its name (internal/testkit/archtest checks that).
//
// # Who may call what
//
// A Protocol is a value without state: it may be copied and used by any goroutine. An Env and the engine made
// from it belong to their worker's thread.
package protocol
