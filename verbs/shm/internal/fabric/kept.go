//go:build linux && amd64

package fabric

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	// keptTempPrefix starts the name of a kept file that is still being allocated. Its maker holds
	// the file's lock; one that nobody locks is the remains of a killed process.
	keptTempPrefix = ".new-"
	maxKeptName    = 128
	// keptRetries bounds how often opening meets a file that was just made or removed.
	keptRetries = 100
)

// checkKeptName accepts names that need no quoting anywhere and cannot leave the directory.
func checkKeptName(name string) error {
	if name == "" || len(name) > maxKeptName || name[0] == '.' {
		return fmt.Errorf("%w: %.140q", ErrBadName, name)
	}
	for _, c := range []byte(name) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case c == '.', c == '_', c == '-':
		default:
			return fmt.Errorf("%w: %.140q", ErrBadName, name)
		}
	}
	return nil
}

// makeKept opens or makes kept memory and maps it. The lock is on an open file of its own: the
// one that is mapped and sent to peers stays open as long as they map it, and would keep the lock
// beyond the death of its owner.
func (d *runDir) makeKept(name string, size int) (*mapping, error) {
	if err := checkKeptName(name); err != nil {
		return nil, err
	}
	m := &mapping{fd: -1, kept: name}
	var err error
	if m.lockFD, err = d.lockKept(name, size); err != nil {
		return nil, err
	}
	m.fd, err = d.open(keptName+"/"+name, unix.O_RDWR)
	if err == nil {
		err = m.mapFD(m.fd, size)
	}
	if err != nil {
		_ = m.abandon()
		return nil, err
	}
	return m, nil
}

// lockKept gives a locked descriptor of the named file, which has the size asked for.
func (d *runDir) lockKept(name string, size int) (int, error) {
	for range keptRetries {
		fd, err := d.open(keptName+"/"+name, unix.O_RDWR)
		if errors.Is(err, unix.ENOENT) {
			fd, err = d.createKept(name, size, nil)
			if errors.Is(err, unix.EEXIST) {
				continue // another process was faster
			}
			return fd, err
		} else if err != nil {
			return -1, err
		}
		st, err := lockFile(fd)
		switch {
		case err != nil:
		case st.Nlink == 0: // removed before we had the lock
			closeFD(fd)
			continue
		case st.Size != int64(size):
			err = fmt.Errorf("%w: %d bytes, asked for %d", ErrKeptSize, st.Size, size)
		default:
			return fd, nil
		}
		closeFD(fd)
		return -1, err
	}
	return -1, ErrKeptBusy
}

// lockFile locks a kept file without waiting and examines it.
func lockFile(fd int) (st unix.Stat_t, err error) {
	err = setLock(fd, unix.F_WRLCK, 0)
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		return st, ErrKeptBusy
	} else if err != nil {
		return st, err
	}
	return st, unix.Fstat(fd, &st)
}

// createKept makes the file under a temporary name, allocated in full and locked, and then links
// it: nobody ever sees one of the wrong size. EEXIST says that the name is taken meanwhile. from, if not nil, has its
// content.
func (d *runDir) createKept(name string, size int, from io.Reader) (int, error) {
	if err := d.checkRoom(size); err != nil {
		return -1, err
	}
	temp := fmt.Sprintf("%s/%s%s-%016x", keptName, keptTempPrefix, name, newIncarnation())
	fd, err := d.createKeptTemp(temp)
	if err != nil {
		return -1, err
	}
	err = allocate(fd, size)
	if err == nil && from != nil {
		err = fillKept(fd, size, from)
	}
	if err == nil {
		err = unix.Linkat(d.fd, temp, d.fd, keptName+"/"+name, 0)
	}
	_ = unix.Unlinkat(d.fd, temp, 0) // otherwise the next to join removes it
	if err != nil {
		closeFD(fd)
		return -1, err
	}
	return fd, nil
}

// copyBytes of kept memory are read or written at once.
const copyBytes = 1 << 20

// fillKept writes what r has into a file of that size, and reads r to its end.
func fillKept(fd, size int, r io.Reader) error {
	buffer := make([]byte, min(copyBytes, size))
	for at := 0; at < size; {
		n, err := io.ReadFull(r, buffer[:min(len(buffer), size-at)])
		if err != nil {
			return fmt.Errorf("the content ends after %d of %d bytes: %w", at+n, size, err)
		}
		for b := buffer[:n]; len(b) > 0; {
			n, err := unix.Pwrite(fd, b, int64(at))
			if err != nil {
				return err
			}
			at, b = at+n, b[n:]
		}
	}
	switch n, err := r.Read(make([]byte, 1)); {
	case n > 0:
		return fmt.Errorf("%w: the content has more than %d bytes", ErrKeptSize, size)
	case err != nil && !errors.Is(err, io.EOF):
		return err
	}
	return nil
}

// checkRoom refuses what the file system or, if that is memory, the host cannot have free.
func (d *runDir) checkRoom(size int) error {
	var fs unix.Statfs_t
	if err := unix.Fstatfs(d.fd, &fs); err != nil {
		return err
	}
	if room := fs.Bavail * uint64(fs.Bsize); fs.Blocks != 0 && uint64(size) > room {
		return fmt.Errorf("%w: %d bytes asked for, %d free on the file system", ErrNoMemory, size,
			room)
	}
	if fs.Type == unix.TMPFS_MAGIC {
		return checkAvailable(size)
	}
	return nil
}

// createKeptTemp makes and locks the temporary file while it holds the directory's lock, so that
// who reclaims never sees it unlocked.
func (d *runDir) createKeptTemp(temp string) (int, error) {
	if err := d.lock(); err != nil {
		return -1, err
	}
	defer d.unlock()
	if err := unix.Mkdirat(d.fd, keptName, 0o700); err != nil && !errors.Is(err, unix.EEXIST) {
		return -1, err
	}
	fd, err := d.open(temp, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL)
	if err != nil {
		return -1, err
	}
	if _, err := lockFile(fd); err != nil {
		closeFD(fd)
		return -1, err
	}
	return fd, nil
}

// reclaimKeptTemp removes a half-made file that nobody is making any more.
func (d *runDir) reclaimKeptTemp(name string) {
	fd, err := d.open(keptName+"/"+name, unix.O_RDWR)
	if err != nil {
		return
	}
	defer closeFD(fd)
	if locked, err := lockedByOther(fd, 0); err == nil && !locked {
		_ = unix.Unlinkat(d.fd, keptName+"/"+name, 0)
	}
}

// checkKept refuses a descriptor that a peer sent for kept memory unless it is the named file.
// The file cannot be sealed; whoever can open it is trusted not to truncate it.
func (d *runDir) checkKept(fd int, name string, size int) error {
	var sent, named unix.Stat_t
	if err := unix.Fstat(fd, &sent); err != nil {
		return fmt.Errorf("%w: %w", ErrBadSegment, err)
	}
	path := keptName + "/" + name
	if err := unix.Fstatat(d.fd, path, &named, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return fmt.Errorf("%w: kept file %s: %w", ErrBadSegment, name, err)
	}
	switch {
	case sent.Dev != named.Dev || sent.Ino != named.Ino:
		return fmt.Errorf("%w: not the kept file %s", ErrBadSegment, name)
	case sent.Size != int64(size):
		return fmt.Errorf("%w: kept file %s has %d bytes, announced as %d", ErrBadSegment, name,
			sent.Size, size)
	}
	if err := checkFile(fd); err != nil {
		return fmt.Errorf("%w: kept file %s: %w", ErrBadSegment, name, err)
	}
	return nil
}

// RemoveKept deletes kept memory that no live process has open. The error wraps ErrNotKept,
// ErrKeptBusy, ErrBadName, ErrUnsafeFile or an errno.
func (f *Fabric) RemoveKept(name string) error {
	const op = "remove kept memory"
	return f.withKept(op, name, func() error { return f.dir.removeKept(name) })
}

func (d *runDir) removeKept(name string) error {
	fd, err := d.open(keptName+"/"+name, unix.O_RDWR)
	if errors.Is(err, unix.ENOENT) {
		return ErrNotKept
	} else if err != nil {
		return err
	}
	defer closeFD(fd)
	st, err := lockFile(fd)
	switch {
	case err != nil:
		return err
	case st.Nlink == 0: // another process removed it first
		return ErrNotKept
	}
	return unix.Unlinkat(d.fd, keptName+"/"+name, 0)
}

// CopyKept writes kept memory that no live process has open to w.
func (f *Fabric) CopyKept(name string, w io.Writer) error {
	const op = "copy kept memory"
	return f.withKept(op, name, func() error { return f.dir.copyKept(name, w) })
}

// PutKept makes kept memory with the content of r.
func (f *Fabric) PutKept(name string, size int64, r io.Reader) error {
	const op = "restore kept memory"
	return f.withKept(op, name, func() error {
		if size <= 0 || size > maxSegmentBytes {
			return fmt.Errorf("%w: %d bytes", ErrSize, size)
		}
		fd, err := f.dir.createKept(name, int(size), r)
		if err == nil {
			closeFD(fd)
		}
		return err
	})
}

// withKept does something with kept memory of a name.
func (f *Fabric) withKept(op, name string, do func() error) error {
	release, err := f.holdDir()
	if err == nil {
		defer release()
		err = checkKeptName(name)
	}
	if err == nil {
		err = do()
	}
	if err != nil {
		return fail(op, name, err, segmentHint(err, SegmentOptions{Keep: name}))
	}
	return nil
}

func (d *runDir) copyKept(name string, w io.Writer) error {
	fd, err := d.open(keptName+"/"+name, unix.O_RDWR)
	if errors.Is(err, unix.ENOENT) {
		return ErrNotKept
	} else if err != nil {
		return err
	}
	defer closeFD(fd)
	st, err := lockFile(fd)
	if err != nil {
		return err
	}
	buffer := make([]byte, min(copyBytes, max(st.Size, 1)))
	for at := int64(0); at < st.Size; {
		n, err := unix.Pread(fd, buffer, at)
		if err == nil && n == 0 {
			err = io.ErrUnexpectedEOF
		}
		if err == nil {
			_, err = w.Write(buffer[:n])
		}
		if err != nil {
			return err
		}
		at += int64(n)
	}
	return nil
}

// ListKept lists the names of kept memory, sorted.
func (f *Fabric) ListKept() ([]string, error) {
	entries, err := os.ReadDir(f.dir.join(keptName))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fail("list kept memory in", f.dir.path, err, "")
	}
	var names []string
	for _, e := range entries {
		if checkKeptName(e.Name()) == nil && !strings.HasPrefix(e.Name(), keptTempPrefix) {
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	return names, nil
}
