package fiber

import "time"

// timers is a binary heap by (time, order of setting), with removal from the middle.
type timers struct {
	heap []*timer
	seq  uint64
}

// set starts t, or moves it if it runs.
func (h *timers) set(t *timer, at time.Duration) {
	h.drop(t)
	h.seq++
	t.at, t.seq = int64(at), h.seq
	h.heap = append(h.heap, t)
	t.index = len(h.heap)
	h.up(len(h.heap) - 1)
}

// drop stops t if it runs.
func (h *timers) drop(t *timer) {
	if t.index == 0 {
		return
	}
	i, last := t.index-1, len(h.heap)-1
	h.swap(i, last)
	h.heap[last] = nil
	h.heap = h.heap[:last]
	t.index = 0
	if i < last {
		h.down(i)
		h.up(i)
	}
}

// next is when the first timer ends.
func (h *timers) next() (time.Duration, bool) {
	if len(h.heap) == 0 {
		return 0, false
	}
	return time.Duration(h.heap[0].at), true
}

// fire ends every timer that is due and says how many.
func (h *timers) fire(now time.Duration) int {
	n := 0
	for len(h.heap) > 0 && h.heap[0].at <= int64(now) {
		t := h.heap[0]
		h.drop(t)
		t.fire()
		n++
	}
	return n
}

func (h *timers) less(i, j int) bool {
	a, b := h.heap[i], h.heap[j]
	return a.at < b.at || a.at == b.at && a.seq < b.seq
}

func (h *timers) swap(i, j int) {
	h.heap[i], h.heap[j] = h.heap[j], h.heap[i]
	h.heap[i].index, h.heap[j].index = i+1, j+1
}

func (h *timers) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !h.less(i, parent) {
			return
		}
		h.swap(i, parent)
		i = parent
	}
}

func (h *timers) down(i int) {
	for {
		least := i
		for c := 2*i + 1; c <= 2*i+2 && c < len(h.heap); c++ {
			if h.less(c, least) {
				least = c
			}
		}
		if least == i {
			return
		}
		h.swap(i, least)
		i = least
	}
}
