//go:build cgo && linux

package ibv

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"drtmd/verbs"
)

// Kept memory is a file that is mapped shared, in the folder of Options.KeepDir: on tmpfs it outlives the
// process, on hugetlbfs too and with huge pages, on a DAX file system of persistent memory the machine as
// well. Other file systems are refused: their pages are written back behind the device's back, and pinning
// them for a device is not safe (Linux, pin_user_pages). The owner holds the lock of the file while it lives.

// maxKeepName bounds MROptions.Keep.
const maxKeepName = 128

// kept is a mapped file.
type kept struct {
	file    *os.File // with its lock
	mapping []byte
}

// checkKeepName accepts names that cannot leave the folder and need no quoting.
func checkKeepName(name string) error {
	ok := name != "" && len(name) <= maxKeepName && name[0] != '.'
	for _, c := range []byte(name) {
		ok = ok && ('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' ||
			c == '.' || c == '_' || c == '-')
	}
	if !ok {
		return fmt.Errorf("kept memory %.140q: give it 1 to %d letters, digits, '.', '_' and '-', not "+
			"starting with '.'", name, maxKeepName)
	}
	return nil
}

// openKept opens or makes kept memory of size bytes.
func openKept(dir, name string, size int) (*kept, error) {
	if err := checkKeepName(name); err != nil {
		return nil, err
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return nil, fmt.Errorf("folder %s of kept memory: %w", dir, err)
	}
	page := unix.Getpagesize()
	if fs.Type == unix.HUGETLBFS_MAGIC {
		page = int(fs.Bsize)
	}
	rounded := (size + page - 1) / page * page
	path := filepath.Join(dir, name)
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CREAT|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("kept memory %s: %w", path, err)
	}
	k := &kept{file: os.NewFile(uintptr(fd), path)}
	if err := k.open(rounded, &fs); err != nil {
		return nil, errors.Join(fmt.Errorf("kept memory %s: %w", path, err), k.file.Close())
	}
	return k, nil
}

// open locks the file, makes it whole if it is new, and maps it.
func (k *kept) open(size int, fs *unix.Statfs_t) error {
	if err := k.lock(); err != nil {
		return err
	}
	fd := int(k.file.Fd())
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFREG, st.Mode&0o077 != 0, int(st.Uid) != os.Geteuid(), st.Nlink != 1:
		return fmt.Errorf("%w: it is no regular file that only this user can access: remove it", unix.EPERM)
	case st.Size == 0: // new, or its maker died before it was whole
		if err := unix.Fallocate(fd, 0, 0, int64(size)); err != nil {
			return errors.Join(fmt.Errorf("%d bytes: %w; df shows the free space of its file system", size, err),
				unix.Ftruncate(fd, 0))
		}
	case st.Size != int64(size):
		return fmt.Errorf("%w: it has %d bytes, asked for %d: ask for the size it was made with, or remove it",
			unix.EINVAL, st.Size, size)
	}
	var err error
	flags := unix.MAP_SHARED
	if fs.Type != unix.TMPFS_MAGIC && fs.Type != unix.HUGETLBFS_MAGIC {
		flags = unix.MAP_SHARED_VALIDATE | unix.MAP_SYNC // refused but where the file is memory itself
	}
	k.mapping, err = unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, flags)
	if errors.Is(err, unix.EOPNOTSUPP) {
		return fmt.Errorf("%w: its file system is neither tmpfs nor hugetlbfs nor DAX: use /dev/shm or a "+
			"mount of those", err)
	} else if err != nil {
		return err
	}
	return unix.Madvise(k.mapping, unix.MADV_DONTFORK)
}

// lock makes the caller the owner.
func (k *kept) lock() error {
	err := unix.Flock(int(k.file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return fmt.Errorf("%w: another process has it open: end it, or use another name", unix.EBUSY)
	}
	return err
}

// close unlocks and unmaps the file, which stays.
func (k *kept) close() error {
	var err error
	if k.mapping != nil {
		err = unix.Munmap(k.mapping)
		k.mapping = nil
	}
	return errors.Join(err, k.file.Close())
}

// Kept implements verbs.KeptMemory.
func (p *provider) Kept() (names []string, err error) {
	if p.keepDir == "" {
		return nil, nil
	}
	list, err := os.ReadDir(p.keepDir)
	if err != nil {
		return nil, keptError(err)
	}
	for _, e := range list {
		if e.Type().IsRegular() && checkKeepName(e.Name()) == nil {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// RemoveKept implements verbs.KeptMemory.
func (p *provider) RemoveKept(name string) error {
	return p.withKept(name, func(k *kept) error { return unix.Unlink(k.file.Name()) })
}

// CopyKept implements verbs.KeptCopier.
func (p *provider) CopyKept(name string, w io.Writer) error {
	return p.withKept(name, func(k *kept) error {
		_, err := io.Copy(w, k.file)
		return err
	})
}

// withKept does something with a file while it is locked.
func (p *provider) withKept(name string, do func(k *kept) error) error {
	if err := checkKeepName(name); err != nil {
		return keptError(err)
	}
	path := filepath.Join(p.keepDir, name)
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return keptError(fmt.Errorf("%s: %w", path, err))
	}
	k := &kept{file: os.NewFile(uintptr(fd), path)}
	if err = k.lock(); err == nil {
		err = do(k)
	}
	if err = errors.Join(err, k.file.Close()); err != nil {
		return keptError(fmt.Errorf("%s: %w", path, err))
	}
	return nil
}

// PutKept implements verbs.KeptCopier. The file gets its name when it is whole; before, it has one that is none of
// kept memory.
func (p *provider) PutKept(name string, size int64, r io.Reader) error {
	if err := checkKeepName(name); err != nil {
		return keptError(err)
	}
	path, temp := filepath.Join(p.keepDir, name), filepath.Join(p.keepDir, ".new-"+name)
	err := unix.Unlink(temp) // of a process that was killed
	if errors.Is(err, unix.ENOENT) {
		err = nil
	}
	if err == nil {
		err = putKept(temp, size, r)
	}
	if err == nil {
		err = unix.Renameat2(unix.AT_FDCWD, temp, unix.AT_FDCWD, path, unix.RENAME_NOREPLACE)
	}
	if err != nil {
		_ = unix.Unlink(temp) // it may not be there
		return keptError(fmt.Errorf("%s: %w", path, err))
	}
	return nil
}

// putKept makes a file with the content of r, by way of its mapping: hugetlbfs has no write.
func putKept(path string, size int64, r io.Reader) error {
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.Fallocate(fd, 0, 0, size); err != nil {
		return fmt.Errorf("%d bytes: %w; df shows the free space of its file system", size, err)
	}
	b, err := unix.Mmap(fd, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	n, err := io.ReadFull(r, b)
	if err != nil {
		err = fmt.Errorf("the content ends after %d of %d bytes: %w", n, size, err)
	} else if n, more := r.Read(make([]byte, 1)); n > 0 || more != nil && !errors.Is(more, io.EOF) {
		err = errors.Join(fmt.Errorf("the content has more than %d bytes, or is damaged", size), more)
	}
	return errors.Join(err, unix.Munmap(b))
}

// keptError makes what the layer reports.
func keptError(err error) error {
	e := &verbs.Error{Op: "kept memory", Err: err}
	var errno unix.Errno
	if errors.As(err, &errno) {
		e.Errno = errno
	}
	return e
}
