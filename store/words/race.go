//go:build race

package words

// raceEnabled: words are then read under their lines' locks, as the detector wants it.
const raceEnabled = true
