//go:build !race

package reproduce

const raceEnabled = false
