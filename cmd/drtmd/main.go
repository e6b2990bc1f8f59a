// Command drtmd measures and, as it grows, runs serializable transactions over RDMA.
package main

import (
	"os"

	"drtmd/cmd/drtmd/internal/cli"
	"drtmd/cmd/drtmd/internal/composition"
)

func main() { os.Exit(cli.Main(composition.BuiltIn(), os.Args[1:], os.Stdout, os.Stderr)) }
