// Package app builds drtmd with a program's own protocols and workloads, beside those of this module. The
// program's main is
//
//	func main() { app.Main(app.Composition{Workloads: []app.Workload{toys.Spec()}}) }
//
// Every command then offers them: bench has their options as flags; serve, up and config have them as keys
// of the section data; sim has the protocols' scenarios. Processes that such a drtmd starts (bench
// --processes, up) run the same program.
//
// Packages proto/workload and proto/protocol describe what a workload and a protocol have to provide. The
// README has an example.
package app

import (
	"fmt"
	"io"
	"os"

	"drtmd/cmd/drtmd/internal/cli"
	"drtmd/cmd/drtmd/internal/composition"
	"drtmd/proto/protocol"
	"drtmd/proto/workload"
)

// Protocol and Workload are how these describe themselves.
type (
	Protocol = protocol.Protocol
	Workload = workload.Spec
)

// Composition is what is added. Names and options must be new; an option that several workloads have, or
// several protocols, must be of one type.
type Composition struct {
	Protocols []Protocol
	Workloads []Workload
}

// Main runs the command line of this process, and ends it with the command's exit code.
func Main(c Composition) { os.Exit(Run(c, os.Args[1:], os.Stdout, os.Stderr)) }

// Run runs a command line, without the program's name, and returns the exit code. It is 1, with the
// reason on stderr, if the composition contradicts itself.
func Run(c Composition, args []string, stdout, stderr io.Writer) int {
	has, err := composition.New(c.Protocols, c.Workloads)
	if err != nil {
		fmt.Fprintf(stderr, "drtmd: %v\n", err)
		return 1
	}
	return cli.Main(has, args, stdout, stderr)
}
