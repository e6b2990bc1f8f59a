package protocol

import "sync/atomic"

// chainGroups is how many groups are told apart: others share one, which only costs waits.
const chainGroups = 256

// Chains is what the workers of a member know together of the chains of pieces that run on it: whether one is under
// way in a group, between its first change and its last. Any goroutine may call it.
//
// Who reads groups takes what it has read for a state without half a chain if AtRest finds a moment at which all of
// that was valid.
type Chains struct {
	groups [chainGroups]chainGroup
}

// chainGroup has a line of its own.
type chainGroup struct {
	begun, done atomic.Uint64 // chains that have entered, and left
	waiting     atomic.Int32  // readers that nobody is to enter before
	_           [44]byte
}

func (c *Chains) at(group uint32) *chainGroup { return &c.groups[group%chainGroups] }

// Enter notes that a chain is about to change records of groups.
func (c *Chains) Enter(groups []uint32) {
	for _, g := range groups {
		c.at(g).begun.Add(1)
	}
}

// Leave notes that all of its pieces have committed, or that it changes nothing any more.
func (c *Chains) Leave(groups []uint32) {
	for _, g := range groups {
		c.at(g).done.Add(1)
	}
}

// AtRest reports whether there was a moment during the call at which no chain was in any of the groups.
//
// All that have left are counted first. As many have entered at that moment as later, and no more than have left, if
// both counts are the same.
func (c *Chains) AtRest(groups []uint32) bool {
	var done, begun uint64
	for _, g := range groups {
		done += c.at(g).done.Load()
	}
	for _, g := range groups {
		begun += c.at(g).begun.Load()
	}
	return begun == done
}

// Hold asks chains not to enter groups before Release, so that these come to rest.
func (c *Chains) Hold(groups []uint32) {
	for _, g := range groups {
		c.at(g).waiting.Add(1)
	}
}

// Release ends Hold.
func (c *Chains) Release(groups []uint32) {
	for _, g := range groups {
		c.at(g).waiting.Add(-1)
	}
}

// Held reports whether somebody waits for one of the groups to come to rest.
func (c *Chains) Held(groups []uint32) bool {
	for _, g := range groups {
		if c.at(g).waiting.Load() > 0 {
			return true
		}
	}
	return false
}
