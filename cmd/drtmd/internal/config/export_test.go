package config

import (
	"fmt"
	"strings"

	"drtmd/cmd/drtmd/internal/composition"
)

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
