//go:build !race

package fiber_test

const raceEnabled = false
