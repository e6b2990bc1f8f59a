package cli

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"drtmd/cmd/drtmd/internal/report"
)

func (a *app) versionCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "version",
		Short: "print the version and how this binary was built",
		Long: `version prints the version of drtmd, the Go release that built it, and how it was built.

Exit codes:
  0    done
  2    wrong command line`,
		Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			b := report.ThisBuild()
			if asJSON {
				return json.NewEncoder(a.stdout).Encode(b)
			}
			_, err := fmt.Fprintln(a.stdout, b)
			return err
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}
