package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"

	"go.uber.org/zap"

	"drtmd/cmd/drtmd/internal/load"
	"drtmd/proto/node"
)

// supervisorFD is where the socket to the supervisor is in a process that it has started.
const supervisorFD = 3

// load runs the workload, in this process or in several.
func (r *benchRun) load(ctx context.Context, o load.Options) (*load.Result, error) {
	if r.flags.processes == 1 {
		return load.Run(ctx, o)
	}
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return load.RunProcesses(ctx, load.ProcessOptions{Options: o, Nodes: r.flags.nodes,
		Processes: r.flags.processes, Names: node.Names(r.workload), TempDir: r.scratch,
		Lost: func(err error) { r.log.Warn("running on", zap.Error(err)) },
		Command: func() *exec.Cmd {
			c := exec.Command(program)
			// The same command line: the last of two equal flags counts.
			c.Args = append(append([]string{os.Args[0]}, r.args...),
				fmt.Sprintf("--%s=%d", joinFlag, supervisorFD))
			c.Stderr = os.Stderr
			c.Env = append(os.Environ(), "TMPDIR="+r.scratch) // what it records overflows there
			return c
		}})
}

// joinRun is one of the processes.
func (r *benchRun) joinRun(ctx context.Context, o load.Options) error {
	f := os.NewFile(uintptr(r.flags.join), "supervisor")
	if f == nil {
		return usagef("it is for the supervisor's use", "--%s %d", joinFlag, r.flags.join)
	}
	c, err := net.FileConn(f)
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("socket of the supervisor: %w", err)
	}
	return errors.Join(load.Join(ctx, c, o, r.openPart), c.Close())
}
