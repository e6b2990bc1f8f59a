package verbstest

import "drtmd/verbs"

// arrivals: where a channel has no descriptor, completions and events are told by a call.
func arrivals(p *Proc) {
	x := p.pair(spec{Channel: true}, spec{})
	completions, events := 0, 0
	onCompletion := func() { completions++ }
	onEvent := func() { events++ }
	if p.lacks(!p.Context().Attr().Caps.PollableChannel, "a CQ's arrivals", func() error {
		return x.rcq.OnArrival(onCompletion)
	}) {
		p.MustBe("a channel's arrivals", x.ch.OnArrival(onEvent), verbs.ErrUnsupported)
		return
	}
	expect := func(what string, wantCompletions, wantEvents int) {
		if completions != wantCompletions || events != wantEvents {
			p.Fatalf("%s: told of %d completions and %d events, want %d and %d", what, completions,
				events, wantCompletions, wantEvents)
		}
	}
	receive := func() {
		x.postRecv(1, 0, 64)
		x.farSend(1, 0)
		p.wait(x.rcq, 1)
	}
	p.Must("ask for completions", x.rcq.OnArrival(onCompletion))
	p.Must("ask for events", x.ch.OnArrival(onEvent))
	receive()
	expect("a completion of a CQ that is not armed", 1, 0)
	p.Must("arm", x.rcq.Arm(false))
	receive()
	expect("one of an armed CQ", 2, 1)
	p.Must("ask again", x.ch.OnArrival(onEvent))
	expect("an event that waits while it is asked for", 2, 2)
	x.consume()
	p.Must("ask again", x.ch.OnArrival(onEvent))
	expect("none that waits", 2, 2)
	p.Must("take back", x.ch.OnArrival(nil))
	p.Must("take back", x.rcq.OnArrival(nil))
	p.Must("arm", x.rcq.Arm(false))
	receive()
	expect("after they were taken back", 2, 2)
	x.consume()

	p.Must("ask again", x.ch.OnArrival(onEvent))
	p.Must("close the QP", x.qp.Close())
	p.Must("close a CQ", x.rcq.Close())
	p.Must("close a CQ", x.scq.Close())
	p.Must("close the channel", x.ch.Close())
	expect("the channel's end", 2, 3)
	p.MustBe("ask a closed channel", x.ch.OnArrival(onEvent), verbs.ErrClosed)
}
