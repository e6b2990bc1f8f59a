//go:build !race

package dlht

const raceEnabled = false
