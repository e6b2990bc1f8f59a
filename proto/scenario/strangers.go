package scenario

import (
	"drtmd/proto/node"
	"drtmd/verbs/fiber"
)

// Whom a machine must not be connected to: a member that was removed, and a life of a member that it
// has not met.

// Names of the checks.
const (
	checkFence = "fence"
	checkLives = "lives"
)

// fence has the worker fence the machine that is removed when it is time, and looks from then on whether
// there is a way to it again. That machine does not know that it was removed.
func (m *manager) fence() {
	switch {
	case m.removed == nil || m.site == m.removed || m.e.World.Now() < m.removeAt:
	case !m.w.Fenced(m.removed.id):
		if err := m.w.Fence(m.removed.id); err != nil {
			m.e.Fail(checkFence, "node %d cannot fence node %d: %v", m.id, m.removed.id, err)
		}
	case m.w.Linked(m.removed.id):
		m.e.Fail(checkFence, "node %d is connected to node %d, which it has removed", m.id, m.removed.id)
	}
}

// hurry has a new life try, once, to reach a peer that it knows and that does not know it.
func (m *manager) hurry(f *fiber.Fiber, peer *site) {
	if !m.hasty || m.life == 0 || peer == m.site || m.hurried(peer) {
		return
	}
	m.tried[peer.id] = peer.lives
	node.Introduce(m.member, peer.member, m.i)
	if m.w.Mend(f, peer.id) && !m.knows(peer) && !peer.managers[m.i].hurried(m.site) {
		m.e.Fail(checkLives, "node %d is connected to node %d, which has not met this life of it", m.id,
			peer.id)
	}
}

// hurried reports whether the manager's life has met the peer's by itself.
func (m *manager) hurried(peer *site) bool {
	return len(m.tried) > 0 && m.tried[peer.id] == peer.lives
}

// counts reports whether the machine is up and a member: what others hold is in its memory.
func (s *site) counts() bool { return s.up() && s != s.removed }
