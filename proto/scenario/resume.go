package scenario

import (
	"fmt"

	"drtmd/proto"
	"drtmd/verbs/fiber"
)

// resume runs what an earlier life has left of chains.
func (m *manager) resume() {
	m.resumed = true
	of, ok := m.load.(proto.Resumer)
	if !ok {
		return // it has none
	}
	r := m.e.World.Rand(fmt.Sprintf("rest of chains %d.%d.%d", m.id, m.i, m.life))
	m.machine.Go(m.i, "rest of chains", func(f *fiber.Fiber) error {
		run := proto.Runner{Engine: m.w.Engine, Rand: r}
		return run.Resume(f, resumer{of, m.values, m.sizes})
	})
}

// resumer makes the rest of chains, whose values are noted.
type resumer struct {
	of     proto.Resumer
	values values
	sizes  []int
}

func (r resumer) Resume(kind uint8, from int, parameters []byte) (proto.Chain, error) {
	c, err := r.of.Resume(kind, from, parameters)
	return &inPieces{&program{inner: c, values: r.values, sizes: r.sizes}, c}, err
}
