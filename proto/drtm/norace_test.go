//go:build !race

package drtm_test

// loadPerFiber is how many random transactions a fiber runs.
const loadPerFiber = 200
