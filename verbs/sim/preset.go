package sim

import (
	"embed"
	"fmt"
	"slices"
	"strings"
)

// The presets are cost files. Each value there carries its source in a comment: measured (by
// the paper that is named), cited (stated by it without a measurement of its own), derived (from
// figures that it prints, with the arithmetic) or assumed.
//
//go:embed presets/*.yaml
var presetFiles embed.FS

// DefaultPreset is the model of a world that names none.
const DefaultPreset = "cx5-100g"

// Presets lists the names that Preset takes, sorted.
func Presets() []string {
	entries, err := presetFiles.ReadDir("presets")
	if err != nil {
		return nil // cannot happen: the directory is embedded
	}
	var names []string
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".yaml"))
	}
	slices.Sort(names)
	return names
}

// Preset gives a fresh copy of a built-in cost model. The part of a name before the dash, as in
// cx3, will do where only one has it.
func Preset(name string) (*CostModel, error) {
	full, ok := findPreset(name)
	if !ok {
		return nil, fmt.Errorf("unknown cost preset %q; known: %s", name,
			strings.Join(Presets(), ", "))
	}
	file := "presets/" + full + ".yaml"
	b, err := presetFiles.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return ParseCost(file, b)
}

// findPreset gives the whole name of a preset.
func findPreset(name string) (full string, ok bool) {
	found := 0
	for _, p := range Presets() {
		if p == name {
			return p, true
		}
		if family, _, _ := strings.Cut(p, "-"); family == name {
			full = p
			found++
		}
	}
	return full, found == 1
}
