// Package archtest checks the shape of the module: which package may import which. It holds the
// table of layers and the rules; its test applies them to what `go list` says, with and without
// cgo. docs/ARCHITECTURE.md shows the same layers to people.
package archtest
