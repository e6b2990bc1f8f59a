package etcdmember

import (
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"

	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap/zapcore"
)

// crash takes the place of the end of the process, and of a panic, with which etcd's log has the last
// word, mostly because the disk is full. The goroutine that has met it ends, and the server is of
// no use any more.
type crash struct {
	started  atomic.Bool // until then StartEtcd is on the stack, and a panic is caught there
	happened atomic.Bool
	failed   chan error // holds one
	// exit, if not nil, ends the process with the error: it is one of etcd's own (see Spawn).
	exit func(error)
}

func newCrash(exit func(error)) *crash { return &crash{failed: make(chan error, 1), exit: exit} }

// crashed is what a panic while etcd starts carries.
type crashed struct{ error }

// OnWrite implements zapcore.CheckWriteHook: it does not return.
func (c *crash) OnWrite(e *zapcore.CheckedEntry, fields []zapcore.Field) {
	text := e.Message
	for _, f := range fields {
		if err, ok := f.Interface.(error); ok && f.Type == zapcore.ErrorType {
			text += ": " + err.Error()
		}
	}
	err := fmt.Errorf("%s%s", text, advice(text))
	if c.exit != nil {
		c.exit(err)
	}
	c.happened.Store(true)
	if !c.started.Load() {
		panic(crashed{err})
	}
	select {
	case c.failed <- err:
	default: // the first one counts
	}
	runtime.Goexit()
}

// noSpace is in the errors of a full disk.
const noSpace = "no space left"

// advice for the usual cause.
func advice(text string) string {
	if strings.Contains(text, noSpace) {
		return fmt.Sprintf("; the embedded etcd needs %d MiB in the state folder", needBytes>>20)
	}
	return ""
}

// needBytes is the room of two log files, the database and a snapshot.
const needBytes = 256 << 20

// start is embed.StartEtcd with an error where that panics.
func (c *crash) start(e *embed.Config) (etcd *embed.Etcd, err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case crashed:
			err = p.error
		default:
			err = fmt.Errorf("etcd panicked: %v", p)
		}
	}()
	etcd, err = embed.StartEtcd(e)
	c.started.Store(true)
	return etcd, err
}
