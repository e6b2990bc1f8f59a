package enginetest

import (
	"testing"

	"drtmd/proto"
	"drtmd/proto/node"
	"drtmd/verbs/fiber"
)

// offers asks a fresh engine for every optional interface: it has those that its protocol names, and
// each answers.
func offers(t *testing.T, e env) {
	c := e.start(t)
	key := keyOn(0, 1)
	c.on(0, func(f *fiber.Fiber, e proto.Engine) error {
		return do(f, e, declare(reading(small, key), writing(small, keyOn(0, 2))), func(tx proto.Txn) error {
			return answered(tx.Read(small, key, value(small, 0)))
		})
	})
	for _, w := range c.Workers() {
		asked := c.protocol.Offers
		if has := proto.Offered(w.Engine); has != asked {
			t.Errorf("the protocol names %v, its engine has %v", asked, has)
		}
		ask(t, asked, proto.OfferDebts, w, func(e proto.Debtor) {
			if e.Debts() != 0 {
				t.Errorf("a cluster that is whole owes %d", e.Debts())
			}
			for n := range w.Peers {
				if owed := e.DebtsAt(proto.NodeID(n)); owed != 0 {
					t.Errorf("node %d is owed %d", n, owed)
				}
			}
		})
		ask(t, asked, proto.OfferOrphans, w, func(e proto.OrphanLister) {
			if list := e.Orphans(nil); len(list) != 0 {
				t.Errorf("orphans: %v", list)
			}
		})
		ask(t, asked, proto.OfferRegions, w, func(e proto.RegionCounter) {
			if got, counted := e.Regions().Begun, w.Engine.Stats().RegionRuns; got < counted {
				t.Errorf("%d regions, and transactions began %d", got, counted)
			}
		})
		ask(t, asked, proto.OfferLeases, w, func(e proto.Leaser) {
			lease, readOnly := e.Leases()
			longest, longestReadOnly, ok := c.Leases()
			if lease <= 0 || readOnly <= 0 || !ok || longest < lease || longestReadOnly < readOnly {
				t.Errorf("leases of %v and %v, those of the cluster %v and %v, %t", lease, readOnly, longest,
					longestReadOnly, ok)
			}
		})
		ask(t, asked, proto.OfferLogs, w, func(e proto.Logger) {
			if s := e.LogStats(); s.Taken > s.Slots || s.Used > s.Bytes || s.Recovering > 0 {
				t.Errorf("logs that cannot be, or that nobody recovers from: %+v", s)
			}
		})
	}
	if _, _, ok := c.Leases(); ok != c.protocol.Offers.Has(proto.OfferLeases) {
		t.Errorf("the cluster has leases: %t", ok)
	}
}

// ask gives an engine as the interface of an offer, if its protocol names that.
func ask[I any](t *testing.T, all, o proto.Offer, w *node.Worker, question func(I)) {
	t.Helper()
	e, ok := w.Engine.(I)
	if ok != all.Has(o) {
		t.Errorf("%v: the engine has it: %t, its protocol names it: %t", o, ok, all.Has(o))
	}
	if ok {
		question(e)
	}
}
