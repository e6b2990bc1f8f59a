package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

const downLong = `down stops the cluster that drtmd up has started in a folder: every node drains, and is killed
if it does not end in time. Where there is none, it says so. State and logs stay until the next up.

Exit codes: 0 stopped or nothing to stop, 1 failed, 2 wrong command line.`

func (a *app) downCommand() *cobra.Command {
	dir := ""
	c := &cobra.Command{Use: "down", Short: "stop the cluster that drtmd up has started", Long: downLong,
		Example: "  drtmd down\n  drtmd down --dir /tmp/mine", Args: noArgs}
	c.Flags().StringVar(&dir, "dir", "", "`FOLDER` of the cluster; default: the user's own")
	c.RunE = func(c *cobra.Command, _ []string) error { return a.down(c.Context(), upDir(dir)) }
	return c
}

// livingNodes are the processes of nodes in a folder of drtmd up, by node.
func livingNodes(dir string) []int {
	files, err := filepath.Glob(filepath.Join(dir, "node*", pidFile))
	if err != nil {
		return nil
	}
	slices.Sort(files)
	var all []int
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			continue
		}
		id, err := strconv.Atoi(strings.TrimSpace(string(b)))
		if err == nil && isNode(id, filepath.Dir(f)) {
			all = append(all, id)
		}
	}
	return all
}

// isNode reports whether a process is the node of a folder, and not another one that got its id.
func isNode(id int, dir string) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", id))
	return err == nil && strings.Contains(string(b), dir+"/")
}

func (a *app) down(ctx context.Context, dir string) error {
	ids := livingNodes(dir)
	if len(ids) == 0 {
		fmt.Fprintf(a.stdout, "no cluster runs in %s\n", dir)
		return removeIfThere(filepath.Join(dir, addressFile))
	}
	slices.Reverse(ids) // the one that began the cluster last
	for i, id := range ids {
		if i == len(ids)-1 {
			if err := awaitEnd(ctx, ids[:i]); err != nil {
				return err
			}
		}
		if err := syscall.Kill(id, syscall.SIGTERM); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("process %d: %w", id, err)
		}
	}
	if err := awaitEnd(ctx, ids); err != nil {
		return err
	}
	fmt.Fprintf(a.stdout, "stopped %d nodes in %s\n", len(ids), dir)
	return removeIfThere(filepath.Join(dir, addressFile))
}

// awaitEnd waits until processes have ended, and kills those that do not in time.
func awaitEnd(ctx context.Context, ids []int) error {
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
