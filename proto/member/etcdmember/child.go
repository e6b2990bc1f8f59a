package etcdmember

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// Between a daemon and the process of its etcd: a line of JSON each. On standard input the process gets
// an order first, then a line for each Reload; its end is the order to stop, also when the daemon was
// killed. On standard output it says what it has to.

// order is what the process is to serve.
type order struct {
	Dir, Listen   string
	CA, Cert, Key string `json:",omitempty"`
}

// word is a line of the process. One of its fields is set.
type word struct {
	Ready  []string `json:",omitempty"` // client URLs
	Failed string   `json:",omitempty"` // why it ends
	Log    *entry   `json:",omitempty"`
	Disk   *Disk    `json:",omitempty"`
}

// entry of etcd's log.
type entry struct {
	Level  zapcore.Level
	Text   string
	Fields map[string]any `json:",omitempty"`
}

// mostWords are kept for a daemon that is stopped; entries of the log beyond them are dropped.
const mostWords = 256

// Certificates reads those of an order, none if its names are empty: what shakes hands, nil without
// TLS, and what reads the files again.
type Certificates func(ca, cert, key string) (current *tls.Config, reload func() error, err error)

// RunChild is the process that Spawn starts, on its standard input and output. It returns when it is
// told to stop. An error was told to the daemon, too; what etcd ends the process with is as well.
func RunChild(ctx context.Context, in io.Reader, out io.Writer, certs Certificates) error {
	// Signals of a terminal or of systemd are for the daemon, which drains before it stops etcd.
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	c := &hosted{out: json.NewEncoder(out), words: make(chan word, mostWords)}
	go c.send()
	err := c.run(ctx, bufio.NewReader(in), certs)
	if err != nil {
		c.say(word{Failed: err.Error()})
	}
	return err
}

// hosted is the process as its etcd sees it: also a zapcore.Core.
type hosted struct {
	dir   string
	mu    sync.Mutex // guards out
	out   *json.Encoder
	words chan word
}

// send writes what may wait, so that etcd never does.
func (c *hosted) send() {
	for w := range c.words {
		c.say(w)
	}
}

// say writes at once. A daemon that is gone ends this process.
func (c *hosted) say(w word) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.out.Encode(w)
}

func (c *hosted) run(ctx context.Context, in *bufio.Reader, certs Certificates) error {
	line, err := in.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("this command is for drtmd serve, which writes to its standard input: %w", err)
	}
	var o order
	if err := json.Unmarshal(line, &o); err != nil {
		return err
	}
	c.dir = o.Dir
	current, reload, err := certs(o.CA, o.Cert, o.Key)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	log := zap.New(c)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer cancel()
		for {
			if _, err := in.ReadString('\n'); err != nil {
				return
			}
			if err := reload(); err != nil {
				log.Error("the certificates were not read again", zap.Error(err))
			}
		}
	}()
	s, err := Start(ctx, ServerConfig{Dir: o.Dir, Listen: o.Listen, CA: o.CA, Cert: o.Cert, Key: o.Key,
		TLS: current, Log: log, exit: c.exit})
	if err != nil {
		return err
	}
	go watchDisk(ctx, o.Dir, func(d Disk) { c.offer(word{Disk: &d}) })
	c.say(word{Ready: s.URLs()})
	select {
	case err = <-s.Failed():
	case <-ended:
	}
	return errors.Join(err, s.Close())
}

// exit ends the process with what etcd has ended it with.
func (c *hosted) exit(err error) {
	c.say(word{Failed: unexpected(c.dir, err.Error())})
	os.Exit(1)
}

func (c *hosted) offer(w word) {
	select {
	case c.words <- w:
	default:
	}
}

func (c *hosted) Enabled(l zapcore.Level) bool { return l >= zap.WarnLevel }

// harmless are complaints of a first start: nothing was written yet that has a version.
var harmless = []string{"Failed to detect schema version", "failed to update storage version"}

func (c *hosted) With([]zapcore.Field) zapcore.Core { return c }

func (c *hosted) Check(e zapcore.Entry, to *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) && !slices.Contains(harmless, e.Message) {
		return to.AddCore(e, c)
	}
	return to
}

func (c *hosted) Write(e zapcore.Entry, fields []zapcore.Field) error {
	enc := zapcore.NewMapObjectEncoder()
	for _, f := range fields {
		f.AddTo(enc)
	}
	for k, v := range enc.Fields {
		if d, ok := v.(time.Duration); ok {
			enc.Fields[k] = d.String()
		} else if _, err := json.Marshal(v); err != nil {
			enc.Fields[k] = fmt.Sprint(v)
		}
	}
	c.offer(word{Log: &entry{e.Level, e.Message, enc.Fields}})
	return nil
}

func (c *hosted) Sync() error { return nil }
