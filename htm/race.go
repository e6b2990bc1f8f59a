//go:build race

package htm

// raceEnabled: the detector takes a copy between two looks at a word for a race, so lines are
// locked to be read.
const raceEnabled = true
