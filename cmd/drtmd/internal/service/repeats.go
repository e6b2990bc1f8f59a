package service

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// message is what counts as the same one.
type message struct {
	level zapcore.Level
	text  string
}

// repeats are messages that were left out since first.
type repeats struct {
	first time.Time
	count int
}

// leftOut counts what the sampler drops, and tells. It may be used from any goroutine.
type leftOut struct {
	core zapcore.Core // to tell on

	mu     sync.Mutex
	counts map[message]*repeats
}

// note is a zapcore.SamplerHook.
func (l *leftOut) note(e zapcore.Entry, d zapcore.SamplingDecision) {
	if d&zapcore.LogDropped == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	m := message{e.Level, e.Message}
	if l.counts[m] == nil {
		l.counts[m] = &repeats{first: e.Time}
	}
	l.counts[m].count++
}

// write writes what has been left out, but for what may still be repeated: the first of it is less
// than age before now.
func (l *leftOut) write(now time.Time, age time.Duration) error {
	due := map[message]*repeats{}
	l.mu.Lock()
	for m, r := range l.counts {
		if now.Sub(r.first) >= age {
			due[m] = r
			delete(l.counts, m)
		}
	}
	l.mu.Unlock()
	order := slices.SortedFunc(maps.Keys(due), func(a, b message) int {
		return cmp.Or(due[a].first.Compare(due[b].first), cmp.Compare(a.text, b.text))
	})
	var errs []error
	for _, m := range order {
		e := zapcore.Entry{Level: m.level, Time: now, Message: "repeated messages were left out"}
		errs = append(errs, l.core.Write(e, []zapcore.Field{zap.String("message", m.text),
			zap.Int("count", due[m].count)}))
	}
	return errors.Join(errs...)
}

// countingCore tells what was left out before it writes.
type countingCore struct {
	zapcore.Core
	left *leftOut
}

// With implements zapcore.Core.
func (c *countingCore) With(f []zapcore.Field) zapcore.Core {
	return &countingCore{c.Core.With(f), c.left}
}

// Check implements zapcore.Core.
func (c *countingCore) Check(e zapcore.Entry, to *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) {
		return to.AddCore(e, c)
	}
	return to
}

// Write implements zapcore.Core.
func (c *countingCore) Write(e zapcore.Entry, f []zapcore.Field) error {
	return errors.Join(c.left.write(e.Time, sampleTick), c.Core.Write(e, f))
}

// Sync implements zapcore.Core.
func (c *countingCore) Sync() error {
	return errors.Join(c.left.write(time.Now(), 0), c.Core.Sync())
}
