package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"drtmd/cmd/drtmd/internal/daemon"
)

const downLong = `down stops the cluster that drtmd up started. Every node drains; down kills a
node that does not end within 40 s. Node state and logs stay until the next drtmd up.

Exit codes:
  0    stopped, or no cluster was running
  1    failed
  2    wrong command line`

func (a *app) downCommand() *cobra.Command {
	p := &upPlace{}
	c := &cobra.Command{Use: "down", Short: "stop the cluster that drtmd up started", Long: downLong,
		Example: "  drtmd down\n  drtmd down --name two\n  drtmd down --dir /tmp/mine", Args: noArgs}
	c.Flags().StringVar(&p.dir, "dir", "", "`FOLDER` of the cluster; default: the user's own folder")
	c.Flags().StringVar(&p.name, "name", "", "`NAME` that drtmd up --name gave the cluster")
	c.RunE = func(c *cobra.Command, _ []string) error {
		dir, err := p.folder()
		if err != nil {
			return err
		}
		return a.down(c.Context(), dir)
	}
	return c
}

func (a *app) down(ctx context.Context, dir string) error {
	n, err := a.stopNodes(ctx, dir)
	switch {
	case err != nil:
		return err
	case n == 0:
		fmt.Fprintf(a.stdout, "no cluster runs in %s\n", dir)
	default:
		fmt.Fprintf(a.stdout, "stopped %d nodes in %s\n", n, dir)
	}
	return removeIfThere(filepath.Join(dir, upStateFile))
}

// stopNodes drains the nodes of a folder, the one that began the cluster last, and kills those that do
// not end. It gives their number.
func (a *app) stopNodes(ctx context.Context, dir string) (int, error) {
	ids := livingNodes(dir)
	slices.Reverse(ids)
	for i, id := range ids {
		if i == len(ids)-1 {
			if err := a.awaitEnd(ctx, ids[:i]); err != nil {
				return 0, err
			}
		}
		if err := syscall.Kill(id, syscall.SIGTERM); err != nil && !errors.Is(err, syscall.ESRCH) {
			return 0, fmt.Errorf("process %d: %w", id, err)
		}
	}
	if err := a.awaitEnd(ctx, ids); err != nil {
		return len(ids), err
	}
	return len(ids), removeHistories(dir)
}

// removeHistories removes what nodes of a folder that were killed have left among the temporary files.
func removeHistories(dir string) error {
	states, err := filepath.Glob(filepath.Join(dir, "node*", "state"))
	for _, state := range states {
		err = errors.Join(err, daemon.RemoveHistories(state))
	}
	return err
}

// awaitEnd waits until processes have ended, and kills those that do not in time.
func (a *app) awaitEnd(ctx context.Context, ids []int) error {
	deadline := time.Now().Add(stopTimeout)
	for {
		left := slices.DeleteFunc(slices.Clone(ids), func(id int) bool {
			return syscall.Kill(id, 0) != nil || zombie(id)
		})
		if len(left) == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			for _, id := range left {
				a.log.Warn("killed, it did not stop in time", zap.Int("process", id))
				_ = syscall.Kill(id, syscall.SIGKILL) // it may have ended
			}
			deadline = deadline.Add(stopTimeout)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// zombie reports whether a process has ended and its parent has not asked how.
func zombie(id int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", id))
	if err != nil {
		return true
	}
	_, rest, ok := strings.Cut(string(b), ") ")
	return ok && strings.HasPrefix(rest, "Z")
}
