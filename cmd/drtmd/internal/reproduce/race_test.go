//go:build race

package reproduce

const raceEnabled = true
