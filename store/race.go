//go:build race

package store

// raceEnabled: buckets are then read under their line words' locks, as the detector wants it.
const raceEnabled = true
