//go:build !race

package daemon

// raceEnabled: regions are on the Go heap, and contexts of other providers do not reach them.
const raceEnabled = false
