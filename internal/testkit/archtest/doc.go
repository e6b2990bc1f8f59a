// Package archtest checks the shape of the module: which package may import which, who may
// name a protocol, and how little a new protocol or workload costs. It holds the table of layers and
// the rules; its tests apply them to what `go list` says, with and without cgo. docs/ARCHITECTURE.md
// shows the same layers to people.
package archtest
