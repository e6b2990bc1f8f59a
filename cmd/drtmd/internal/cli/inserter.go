package cli

import (
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"drtmd/cmd/drtmd/internal/reproduce"
)

// inserterCommand is a client process of drtmd reproduce rtx/figure-14-wall, which is killed.
func (a *app) inserterCommand() *cobra.Command {
	const arguments = 5
	c := &cobra.Command{Use: reproduce.Inserter + " DIR SYSTEM CLIENT SEED KEYS", Hidden: true, Args: cobra.ExactArgs(arguments),
		Short: "a client of drtmd reproduce rtx/figure-14-wall, which starts it",
		Long: "reproduce-inserter is started by drtmd reproduce rtx/figure-14-wall, inserts into the tree of its\n" +
			"memory node, and ends with the run."}
	c.RunE = func(c *cobra.Command, args []string) error {
		n, err := strconv.Atoi(args[2])
		if err != nil {
			return usagef("", "CLIENT: %v", err)
		}
		seed, err := strconv.ParseUint(args[3], 10, 64)
		if err != nil {
			return usagef("", "SEED: %v", err)
		}
		keys, err := strconv.Atoi(args[4])
		if err != nil {
			return usagef("", "KEYS: %v", err)
		}
		if err := reproduce.Insert(c.Context(), args[0], args[1], n, seed, keys); err != nil {
			return fmt.Errorf("client %d: %w", n, err)
		}
		return nil
	}
	return c
}
