package daemon

import (
	"slices"
	"sync"
	"time"

	"drtmd/cmd/drtmd/internal/status"
)

// keptEvents is how many events a daemon remembers.
const keptEvents = 100

// events are the last ones.
type events struct {
	mu   sync.Mutex
	list []status.Event
}

func newEvents() *events { return &events{} }

func (e *events) add(l status.Level, text string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.list) == keptEvents {
		e.list = slices.Delete(e.list, 0, 1)
	}
	e.list = append(e.list, status.Event{Time: time.Now().UTC(), Level: l, Text: text})
}

func (e *events) last() []status.Event {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.list)
}
