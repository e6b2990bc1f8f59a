//go:build linux && amd64 && !race

package shm

// raceEnabled is false in normal builds; see race.go.
const raceEnabled = false
