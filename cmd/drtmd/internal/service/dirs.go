package service

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"drtmd/cmd/drtmd/internal/config"
)

// StateDir is the folder that lasts: as asked for, else systemd's, else one of the user.
func StateDir(asked string) string {
	return pickDir(asked, "STATE_DIRECTORY", "XDG_STATE_HOME", ".local/state", "/var/lib")
}

// RuntimeDir is the folder of sockets: as asked for, else systemd's, else one of the user.
func RuntimeDir(asked string) string {
	if d := os.Getenv("XDG_RUNTIME_DIR"); asked == "" && os.Getenv("RUNTIME_DIRECTORY") == "" &&
		d == "" && os.Getuid() != 0 {
		return filepath.Join(os.TempDir(), fmt.Sprintf("drtmd-%d", os.Getuid()))
	}
	return pickDir(asked, "RUNTIME_DIRECTORY", "XDG_RUNTIME_DIR", "", "/run")
}

func pickDir(asked, systemd, xdg, home, root string) string {
	if asked != "" {
		return asked
	}
	if d := os.Getenv(systemd); d != "" {
		d, _, _ = strings.Cut(d, ":") // systemd lists several if there are
		return d
	}
	if os.Getuid() == 0 {
		return filepath.Join(root, "drtmd")
	}
	if d := os.Getenv(xdg); d != "" {
		return filepath.Join(d, "drtmd")
	}
	h, err := os.UserHomeDir()
	if err != nil {
		h = os.TempDir()
	}
	return filepath.Join(h, home, "drtmd")
}

// Problems are what this host refuses of a configuration, before anything is started.
func Problems(c *config.Config) (all []config.Problem) {
	bad := func(path string, err error) {
		all = append(all, config.Problem{Path: path, Text: strings.TrimPrefix(err.Error(), path+": ")})
	}
	asked, err := config.ParseCPUs(c.Node.CPUs)
	allowed, unknown := AllowedCPUs()
	if err == nil && unknown == nil {
		if _, err := Place(asked, allowed, c.Transport.Device); err != nil {
			bad("node.cpus", err)
		}
	}
	if err := ownDir(StateDir(c.Node.StateDir)); err != nil && !errors.Is(err, os.ErrNotExist) {
		bad("node.state_dir", err)
	}
	return all
}

// ownDir refuses what is no folder of this user; os.ErrNotExist if there is none.
func ownDir(dir string) error {
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return fmt.Errorf("folder %s: %w; name another one", dir, err)
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFDIR:
		return fmt.Errorf("%s is no folder: name another one", dir)
	case int(st.Uid) != os.Getuid():
		return fmt.Errorf("folder %s is of user %d, not of %d: name another one, or chown it", dir, st.Uid,
			os.Getuid())
	}
	return nil
}

// OpenDir makes a folder for this user alone, or refuses one that others own.
func OpenDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("folder %s: %w; name another one", dir, err)
	}
	if err := ownDir(dir); err != nil {
		return err
	}
	i, err := os.Stat(dir)
	if err != nil {
		return err
	}
	if i.Mode().Perm()&0o077 != 0 {
		if err := os.Chmod(dir, 0o700); err != nil {
			return err
		}
	}
	return nil
}

// lockName is the file that says who uses a state folder.
const lockName = "lock"

// Lock takes a state folder for this process until unlock is called. Another process that has it is
// named.
func Lock(dir string) (unlock func() error, err error) {
	f, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		who := make([]byte, 32)
		n, _ := f.Read(who)
		return nil, errors.Join(fmt.Errorf("folder %s is used by another drtmd (process %s): give each "+
			"node a node.state_dir of its own", dir, strings.TrimSpace(string(who[:n]))), f.Close())
	}
	err = errors.Join(f.Truncate(0), writeAt(f, fmt.Sprintf("%d\n", os.Getpid())))
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f.Close, nil
}

func writeAt(f *os.File, text string) error {
	_, err := f.WriteAt([]byte(text), 0)
	return err
}

// Inode tells a folder from its copies.
func Inode(dir string) (uint64, error) {
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return 0, fmt.Errorf("%s: %w", dir, err)
	}
	return st.Ino, nil
}
