package sim

import "fmt"

// eventKind says what an event does; the fabric's own events carry no closure.
type eventKind uint8

const (
	evFree     eventKind = iota // the slot is unused
	evCanceled                  // in the heap, but not to be run; the kinds above are live
	evCall                      // call a function: At, After
	evCPU                       // call a function of a Timeline
	evSend                      // a QP's send queue gets its turn at the NIC
	evWire                      // a message is ready for the uplink
	evArrive                    // its head is at the switch's port to the destination
	evExec                      // the destination's NIC has processed it
	evMem                       // the next piece of memory is read or written
	evDone                      // its completion entry is visible
	evSent                      // a datagram is on the wire
	evTimeout                   // the clock of retries of a QP
	evStep                      // a marked step (trace only)
	evFault                     // a fault strikes (trace only)
	evKinds
)

var eventNames = [evKinds]string{"free", "canceled", "call", "cpu", "send", "wire", "arrive", "exec",
	"memory", "done", "sent", "timeout", "step", "fault"}

func (k eventKind) String() string {
	if k < evKinds {
		return eventNames[k]
	}
	return fmt.Sprintf("unknown event %d", uint8(k))
}

// event is what a slot of the slab holds; what is set depends on kind.
type event struct {
	call func()
	cpu  *Timeline
	msg  *message
	qp   *qp
	arg  uint64
	gen  uint32
	kind eventKind
}

// fire runs an event.
func (w *World) fire(ev *event) {
	switch ev.kind {
	case evCall:
		ev.call()
	case evCPU:
		ev.cpu.run(ev.call)
	case evSend:
		ev.qp.turn()
	case evWire:
		w.links.depart(ev.msg)
	case evArrive:
		w.links.arrive(ev.msg)
	case evExec:
		ev.msg.at().exec(ev.msg)
	case evMem:
		w.access(ev.msg)
	case evDone:
		w.finish(ev.msg)
	case evSent:
		ev.qp.sent(ev.arg)
	case evTimeout:
		ev.qp.timedOut()
	}
}

// post schedules an event of a message.
func (w *World) post(t Time, kind eventKind, m *message) {
	w.schedule(t, event{kind: kind, msg: m})
}
