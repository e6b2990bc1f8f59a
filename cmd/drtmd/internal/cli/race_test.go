//go:build race

package cli

// raceBuild: memory of the shm transport is on the Go heap, where no other process sees it.
const raceBuild = true
