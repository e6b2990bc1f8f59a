//go:build linux && amd64 && race

package shm

// raceEnabled: memory comes from the Go heap, peers are in this process, and a READ locks the
// lines it copies, because the detector does not understand a seqlock.
const raceEnabled = true
