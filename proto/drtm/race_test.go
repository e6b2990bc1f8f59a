//go:build race

package drtm_test

// loadPerFiber is how many random transactions a fiber runs: each takes ten times as long here.
const loadPerFiber = 50
