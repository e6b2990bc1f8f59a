// Package archtest checks the structure of the module: which package may import which, which may name a
// protocol, and which edits a new protocol or workload needs. It holds the table of layers and the rules;
// its tests apply them to the output of `go list`, with and without cgo. docs/ARCHITECTURE.md shows the same
// layers.
package archtest
