package etcdmember

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"go.etcd.io/bbolt"
	"go.etcd.io/etcd/server/v3/etcdserver/api/snap"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.uber.org/zap"
	"golang.org/x/sys/unix"
)

// ErrDamaged: etcd's files are not as it has left them.
var ErrDamaged = errors.New("etcd's files are damaged")

// damaged says what to do about it.
func damaged(dir string, err error) error {
	return fmt.Errorf("%w: %w; %s", ErrDamaged, err, adviceForDamage(dir))
}

// adviceForDamage says what to do about damaged files.
func adviceForDamage(dir string) string {
	return fmt.Sprintf("they hold only who is a member: move %s away and start again, which begins the "+
		"cluster anew, then restart the other members", dir)
}

// firstBytes is what the first start writes at least: a WAL segment of 64 MiB that is allocated in
// full, and a database.
const firstBytes = 72 << 20

// files of a member of etcd, in its data folder.
type files struct{ dir string }

func (f files) wal() string  { return filepath.Join(f.dir, "member", "wal") }
func (f files) snap() string { return filepath.Join(f.dir, "member", "snap") }
func (f files) db() string   { return filepath.Join(f.snap(), "db") }

// verify looks at the files before etcd opens them: etcd and bbolt panic where they find them damaged,
// partly in goroutines of their own, and a WAL that ends before the database makes etcd drop what it
// is told without a word.
func verify(dir string) error {
	f := files{dir}
	haveWAL := wal.Exist(f.wal())
	if !haveWAL {
		if err := room(dir); err != nil {
			return err
		}
	}
	applied, err := checkDatabase(f.db())
	switch {
	case errors.Is(err, os.ErrNotExist):
		// A first start, or one that the WAL makes it anew from.
	case err != nil && !haveWAL:
		// A first start that a power cut ended: there is no cluster yet.
		if err := os.Remove(f.db()); err != nil {
			return err
		}
		return nil
	case err != nil:
		return damaged(dir, fmt.Errorf("%s: %w", f.db(), err))
	case applied > 0 && !haveWAL:
		return damaged(dir, fmt.Errorf("%s has no log, but the database beside it belongs to one", f.wal()))
	}
	if !haveWAL {
		return nil
	}
	last, err := lastIndex(f)
	if err == nil && last < applied {
		err = fmt.Errorf("its last entry is %d, the database has entry %d", last, applied)
	}
	if err != nil {
		return damaged(dir, fmt.Errorf("log %s: %w", f.wal(), err))
	}
	return nil
}

// room refuses a first start on a disk that is full.
func room(dir string) error {
	var st unix.Statfs_t
	if err := unix.Statfs(filepath.Dir(dir), &st); err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	if free := st.Bavail * uint64(st.Bsize); free < firstBytes {
		return fmt.Errorf("%s on device: %d KiB are free%s", noSpace, free>>10, advice(noSpace))
	}
	return nil
}

// checkDatabase checks every page that is in use, and gives the index of the last entry that is in the
// database. A damaged file is an error, whatever bbolt does about it, but for a panic of a goroutine
// of bbolt's.
func checkDatabase(name string) (applied uint64, err error) {
	switch i, err := os.Stat(name); {
	case err != nil:
		return 0, err
	case i.Size() == 0:
		return 0, errors.New("it is empty")
	}
	// A page beyond the end of the file is a fault of memory that is mapped.
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p)
		}
	}()
	db, err := bbolt.Open(name, 0o600, &bbolt.Options{ReadOnly: true, Timeout: time.Second,
		PreLoadFreelist: true})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	err = db.View(func(tx *bbolt.Tx) error {
		var first error
		for err := range tx.Check() { // to its end: the channel has to be drained
			if first == nil {
				first = err
			}
		}
		if b := tx.Bucket([]byte("meta")); b != nil {
			if v := b.Get([]byte("consistent_index")); len(v) == 8 {
				applied = binary.BigEndian.Uint64(v)
			}
		}
		return first
	})
	return applied, err
}

// lastIndex reads the whole log from the newest snapshot on, as etcd will, and gives the index of its
// last entry. The last record may be in part: a crash leaves that.
func lastIndex(f files) (last uint64, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p)
		}
	}()
	log := zap.NewNop()
	known, err := wal.ValidSnapshotEntries(log, f.wal())
	if err != nil {
		return 0, err
	}
	from := &walpb.Snapshot{}
	switch s, err := snap.New(log, f.snap()).LoadNewestAvailable(known); {
	case err == nil:
		index, term := s.GetMetadata().GetIndex(), s.GetMetadata().GetTerm()
		from.Index, from.Term = &index, &term
		last = index
	case !errors.Is(err, snap.ErrNoSnapshot) && !errors.Is(err, os.ErrNotExist):
		return 0, err
	}
	w, err := wal.OpenForRead(log, f.wal(), from)
	if err != nil {
		return 0, err
	}
	_, state, entries, err := w.ReadAll()
	_ = w.Close() // it was only read, and has closed its files when it was at their end
	if err != nil {
		return 0, err
	}
	if n := len(entries); n > 0 {
		last = entries[n-1].GetIndex()
	}
	if c := state.GetCommit(); c > last {
		return 0, fmt.Errorf("it ends with entry %d, entry %d was committed", last, c)
	}
	return last, nil
}
