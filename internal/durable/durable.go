// Package durable writes files atomically: after a crash or a power cut a file has its old or its new
// content, never a part. The content goes to a temporary file of the same folder, which is synced and
// renamed, and the folder is synced. drtmd writes every file here that a later process reads.
//
// Any goroutine may call it. If two write one file, the whole content of one of them remains.
package durable

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// tempMark is in the names of temporary files: .NAME.new-RANDOM.
const tempMark = ".new-"

// WriteFile puts b in place of a file.
func WriteFile(name string, b []byte, mode os.FileMode) error {
	return Write(name, mode, func(w io.Writer) error {
		_, err := w.Write(b)
		return err
	})
}

// Write puts what write writes in place of a file. On an error the file is as it was.
func Write(name string, mode os.FileMode, write func(io.Writer) error) error {
	return put(name, mode, write, os.Rename)
}

// Create is Write for a file that is not there; one that is there is os.ErrExist, and is kept.
func Create(name string, mode os.FileMode, write func(io.Writer) error) error {
	return put(name, mode, write, func(temp, name string) error {
		// A link replaces nothing, unlike a rename.
		return errors.Join(os.Link(temp, name), os.Remove(temp))
	})
}

func put(name string, mode os.FileMode, write func(io.Writer) error,
	place func(temp, name string) error) error {
	dir := filepath.Dir(name)
	f, err := os.CreateTemp(dir, "."+filepath.Base(name)+tempMark+"*")
	if err != nil {
		return err
	}
	err = errors.Join(f.Chmod(mode), write(f), f.Sync())
	if err = errors.Join(err, f.Close()); err == nil {
		if err = place(f.Name(), name); err == nil {
			return SyncDir(dir)
		}
	}
	if gone := os.Remove(f.Name()); !errors.Is(gone, os.ErrNotExist) {
		err = errors.Join(err, gone)
	}
	return fmt.Errorf("%s: %w", name, err)
}

// SyncDir makes the names in a folder durable, where the file system can.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOTSUP) {
		err = nil // this file system syncs no folders
	}
	return errors.Join(err, d.Close())
}

// Clean removes the temporary files that lives which were killed have left in a folder. Nobody may be
// writing there.
func Clean(dir string) error {
	list, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range list {
		if strings.HasPrefix(e.Name(), ".") && strings.Contains(e.Name(), tempMark) && e.Type().IsRegular() {
			errs = append(errs, os.Remove(filepath.Join(dir, e.Name())))
		}
	}
	return errors.Join(errs...)
}
