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

// Markdown is docs/configuration.md.
func Markdown(has *composition.Composition) string {
	var b strings.Builder
	b.WriteString(`# Configuration

<!-- Made from the tags of cmd/drtmd/internal/config: go test ./cmd/drtmd/internal/config -update -->

A node reads one YAML file (` + "`drtmd serve --config FILE`" + `). Environment variables override it, and
flags override both. An unknown key, a wrong type or a value out of range is an error with file and
line, and so is an unknown variable that begins with ` + "`DRTMD_`" + `. All errors are printed at once.

- ` + "`drtmd config [--config FILE] [flags]`" + ` prints every key, its value, and where the value comes from.
  It omits options of workloads and protocols that are not configured.
- ` + "`drtmd config --example`" + ` prints a commented file.
- ` + "`drtmd config --json`" + ` prints JSON of schema ` + "`drtmd.config/1`" + `: ` + "`settings[]`" + ` with ` + "`key`" + `, ` + "`value`" + `
  (a string, a number, a boolean or a list; a time in seconds and a size in bytes, as ` + "`unit`" + `
  says), ` + "`text`" + ` (the value as a file has it), ` + "`source`" + `, ` + "`env`" + `, ` + "`flag`" + ` and ` + "`doc`" + `.

Sizes have a unit: B, KiB, MiB, GiB (powers of 1024), kB, MB, GB (powers of 1000). Times have a unit:
ms, s, m, h. In variables and flags, commas separate the items of a list. Three variables are not
keys: ` + "`DRTMD_CONFIG`" + ` names the file if ` + "`--config`" + ` does not, ` + "`DRTMD_ADDRESS`" + ` is the control address
that client commands use, and ` + "`DRTMD_REQUIRE`" + ` is for tests.
`)
	d, last := Default(has), ""
	for _, k := range Keys(has) {
		if section, _, _ := strings.Cut(k.Path, "."); section != last {
			fmt.Fprintf(&b, "\n## %s\n", section)
			last = section
		}
		fmt.Fprintf(&b, "\n### %s\n\n%s\n\n", k.Path, sentence(k.Doc))
		fmt.Fprintf(&b, "- Type: %s\n", k.Type())
		if text := k.Get(&d); k.option != nil {
			fmt.Fprintf(&b, "- Default: %s\n", k.defaults("`"))
		} else if text != "" {
			fmt.Fprintf(&b, "- Default: `%s`\n", text)
		} else {
			b.WriteString("- Default: empty\n")
		}
		if k.Example != "" {
			fmt.Fprintf(&b, "- Example: `%s`\n", k.Example)
		}
		fmt.Fprintf(&b, "- Environment: `%s`\n- Flag: `--%s`\n", k.Env(),
			strings.Join(k.flagNames(), "` or `--"))
	}
	return b.String()
}
