package config

import (
	"fmt"
	"strings"

	"drtmd/cmd/drtmd/internal/composition"
)

// exampleColumns is how wide the comments of an example are, with their indent.
const exampleColumns = 98

// Example is a configuration file with every key, commented out, with its default or, if that is
// empty, with an example. Where several workloads or protocols share a key, the comment has the default of each.
// The file is valid as it is, and with any of its keys uncommented.
func Example(has *composition.Composition) string {
	var b strings.Builder
	b.WriteString("# The configuration of a drtmd node: every key, commented out, with its default\n" +
		"# or an example. Environment variables DRTMD_* override this file, flags override both. drtmd\n" +
		"# config prints the result and where each value comes from.\n")
	d, last := Default(has), ""
	for _, k := range Keys(has) {
		section, field, _ := strings.Cut(k.Path, ".")
		if section != last {
			fmt.Fprintf(&b, "\n%s:\n", section)
			last = section
		}
		doc := sentence(k.Doc)
		if k.option != nil && len(k.option.Variants) > 1 {
			doc += " Default: " + k.defaults("") + "."
		}
		for _, line := range wrap(doc, exampleColumns-len("  # ")) {
			fmt.Fprintf(&b, "  # %s\n", line)
		}
		fmt.Fprintf(&b, "  #%s: %s\n", field, k.sample(&d))
	}
	return b.String()
}

// sample is a value as YAML.
func (k Key) sample(d *Config) string {
	if k.Example != "" {
		return k.Example
	}
	text := k.Get(d)
	if _, list := k.get(d).([]string); list {
		return "[" + text + "]"
	}
	if text == "" || text == "off" {
		return `"` + text + `"`
	}
	return text
}

func sentence(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:] + "."
}

// wrap breaks a text between words.
func wrap(text string, columns int) []string {
	var lines []string
	line := ""
	for _, w := range strings.Fields(text) {
		if line != "" && len(line)+1+len(w) > columns {
			lines = append(lines, line)
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += w
	}
	return append(lines, line)
}
