package cli

import (
	"encoding/json"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"drtmd/cmd/drtmd/internal/config"
)

const configLong = `config prints every setting of drtmd serve, its value, and where the value
comes from. Later sources override earlier ones: default, file, DRTMD_* environment variable,
flag.

config reads the same file, environment and flags as drtmd serve, and refuses them with the same
errors, but starts nothing. It also refuses missing certificates and keys, CPUs that the process may
not use, and a state folder of another user. Only drtmd serve can tell whether a port is taken, a
device is missing, or other members refuse the node.

Exit codes:
  0    the configuration is valid
  2    wrong configuration or command line`

const configExample = `  drtmd config --config /etc/drtmd/drtmd.yaml
  drtmd config --example > drtmd.yaml
  DRTMD_CLUSTER_LEASE=10s drtmd config --json`

// ConfigSchema is that of the document that drtmd config --json prints.
const ConfigSchema = "drtmd.config/1"

type configDocument struct {
	Schema   string      `json:"schema"`
	Settings []configRow `json:"settings"`
}

// configRow is a setting.
type configRow struct {
	Key string `json:"key"`
	// Value is a string, a number, true or false, or a list of strings; a time is a number of seconds
	// and a size one of bytes, as Unit says.
	Value  any    `json:"value"`
	Unit   string `json:"unit,omitempty"`
	Text   string `json:"text"` // the value as a file has it
	Source string `json:"source"`
	Env    string `json:"env"`
	Flag   string `json:"flag"`
	Doc    string `json:"doc"`
}

func (a *app) configCommand() *cobra.Command {
	var file string
	var example, asJSON bool
	c := &cobra.Command{Use: "config", Short: "print the configuration and its sources, or an example",
		Long: configLong, Example: configExample, Args: noArgs}
	f := c.Flags()
	f.StringVar(&file, configFlag, "", configUsage)
	f.BoolVar(&example, "example", false, "print a commented file with every key and its default")
	f.BoolVar(&asJSON, "json", false, "print JSON (schema "+ConfigSchema+")")
	config.RegisterFlags(a.has, f)
	c.RunE = func(c *cobra.Command, _ []string) error {
		if example {
			_, err := fmt.Fprint(a.stdout, config.Example(a.has))
			return err
		}
		cfg, src, err := a.loadConfig(c, file)
		if err != nil {
			return err
		}
		return a.printConfig(cfg, src, asJSON)
	}
	return c
}

func (a *app) printConfig(cfg *config.Config, src config.Sources, asJSON bool) error {
	var rows []configRow
	for _, k := range config.Keys(a.has) {
		if !k.Fits(cfg) {
			continue
		}
		value, unit := k.Typed(cfg)
		rows = append(rows, configRow{Key: k.Path, Value: value, Unit: unit, Text: k.Get(cfg),
			Source: src[k.Path], Env: k.Env(), Flag: "--" + k.Flag(), Doc: k.Doc})
	}
	if asJSON {
		e := json.NewEncoder(a.stdout)
		e.SetIndent("", "  ")
		return e.Encode(&configDocument{ConfigSchema, rows})
	}
	t := tabwriter.NewWriter(a.stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "KEY\tVALUE\tSOURCE")
	for _, r := range rows {
		value := r.Text
		if value == "" {
			value = "-"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\n", r.Key, value, r.Source)
	}
	return t.Flush()
}
