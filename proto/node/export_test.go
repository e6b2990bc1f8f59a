package node

import (
	"drtmd/verbs/sim"
	"drtmd/verbs/smartnic"
)

// JournalsAt is where the journals of a member's workers begin in the memory of its tables, and TableAt where a table does.
func (m *Member) JournalsAt() int   { return m.journalsAt }
func (m *Member) TableAt(i int) int { return m.tables[i].offset }

// WorldStats are what the simulated network of a cluster counts itself.
func (c *Cluster) WorldStats() sim.Stats { return c.host.(*cores).world.Stats() }

// PlayedWaiting is how many parts of packets of a NIC that is played wait for a node. On the members' thread.
func PlayedWaiting(b smartnic.Board, to int) int { return len(b.(*playedNIC).ways[to].waiting) }

// PlayedTwice has a NIC that is played send every part of a packet a second time, behind others, as it does when
// an answer is lost with its session.
func PlayedTwice(b smartnic.Board) { b.(*playedNIC).twice = true }
