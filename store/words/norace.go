//go:build !race

package words

const raceEnabled = false
