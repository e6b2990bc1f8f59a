// Command drtmd measures and, as it grows, runs serializable transactions over RDMA.
package main

import (
	"os"

	"drtmd/cmd/drtmd/internal/cli"
)

func main() { os.Exit(cli.Main(os.Args[1:], os.Stdout, os.Stderr)) }
