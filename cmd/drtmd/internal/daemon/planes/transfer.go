package planes

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// transferEvery is how often is said how far a transfer is; one that takes less is not mentioned.
const transferEvery = 2 * time.Second

// transfer says how far a number of bytes from several places has come, and how long the rest may
// take. It may be used by several goroutines.
type transfer struct {
	what string
	tell func(string)
	now  func() time.Time

	mu       sync.Mutex // guards what follows
	done, of int64      // bytes
	begin    time.Time  // of the first expectation
	last     time.Time  // when something was told
}

func newTransfer(what string, tell func(string)) *transfer {
	return &transfer{what: what, tell: tell, now: time.Now}
}

// expect adds bytes that will come.
func (t *transfer) expect(n int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.begin.IsZero() {
		t.begin = t.now()
		t.last = t.begin
	}
	t.of += n
}

// came counts bytes.
func (t *transfer) came(n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.done += int64(n)
	now := t.now()
	if t.done == 0 || now.Sub(t.last) < transferEvery {
		return
	}
	t.last = now
	left := time.Duration(float64(now.Sub(t.begin)) * float64(max(t.of-t.done, 0)) / float64(t.done))
	t.tell(fmt.Sprintf("%s: %d of %d MB, about %v left", t.what, t.done/1e6, max(t.of, t.done)/1e6,
		left.Round(time.Second)))
}

// writer counts what is written to w.
func (t *transfer) writer(w io.Writer) io.Writer { return &transferWriter{t, w} }

type transferWriter struct {
	t *transfer
	w io.Writer
}

func (w *transferWriter) Write(b []byte) (int, error) {
	n, err := w.w.Write(b)
	w.t.came(n)
	return n, err
}
