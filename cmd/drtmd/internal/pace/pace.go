// Package pace limits how often a message is repeated: at once, then after waits that double. Its values
// have no lock; the caller guards them.
package pace

import "time"

// Pace is of one thing. The caller sets Least and Most.
type Pace struct {
	Least, Most time.Duration
	every       time.Duration // the wait until next; 0 before the first
	next        time.Time
}

// Due reports whether to say it now.
func (p *Pace) Due(now time.Time) bool {
	if now.Before(p.next) {
		return false
	}
	p.every = min(max(2*p.every, p.Least), p.Most)
	p.next = now.Add(p.every)
	return true
}

// Every is the wait after which it is due again.
func (p *Pace) Every() time.Duration { return p.every }

// Reset is for when it is over.
func (p *Pace) Reset() { p.every, p.next = 0, time.Time{} }

// Repeats lets a text be said at once if it is another one than before, and else ever more rarely.
type Repeats struct {
	Least, Most time.Duration
	pace        Pace
	text        string
}

// Due reports whether to say the text now.
func (r *Repeats) Due(now time.Time, text string) bool {
	if text != r.text {
		r.text, r.pace = text, Pace{Least: r.Least, Most: r.Most}
	}
	return r.pace.Due(now)
}

// Reset is for when it is over: the next text is another one.
func (r *Repeats) Reset() { r.text, r.pace = "", Pace{} }
