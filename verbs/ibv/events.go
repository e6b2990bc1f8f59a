//go:build cgo && linux

package ibv

// #include "shim.h"
import "C"

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"drtmd/verbs"
)

// Start reads asynchronous events in a goroutine that waits in Go's poller, on a duplicate of
// the context's descriptor: os.File wants one that it may close.
func (d *device) Start(sink func(verbs.DriverEvent)) error {
	const op = "ibv_get_async_event"
	fd := d.ctx.async_fd
	if err := failed(op, C.drt_nonblocking(fd)); err != nil {
		return err
	}
	dup, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return &verbs.Error{Op: op, Device: d.attr.Name, Err: err}
	}
	d.async = os.NewFile(uintptr(dup), "asynchronous events of "+d.attr.Name)
	raw, err := d.async.SyscallConn()
	if err != nil {
		return &verbs.Error{Op: op, Device: d.attr.Name, Err: err}
	}
	d.events.Go(func() { d.readEvents(raw, sink) })
	return nil
}

// readEvents runs until the file is closed or the device is gone.
func (d *device) readEvents(raw syscall.RawConn, sink func(verbs.DriverEvent)) {
	for {
		var e verbs.DriverEvent
		var errno C.int
		err := raw.Read(func(uintptr) bool {
			e, errno = d.nextEvent()
			return errno != C.EAGAIN && errno != C.EINTR
		})
		switch {
		case err != nil:
			return // closed
		case errno != 0:
			sink(verbs.DriverEvent{Event: verbs.Event{Type: verbs.EventDeviceFatal,
				Text: "asynchronous events ended: " + syscall.Errno(errno).Error()}})
			return
		}
		sink(e)
	}
}

func (d *device) nextEvent() (verbs.DriverEvent, C.int) {
	var c C.struct_drt_event
	if errno := C.drt_get_event(d.ctx, &c); errno != 0 {
		return verbs.DriverEvent{}, errno
	}
	return verbs.DriverEvent{CQID: uint32(c.cq_id), Event: verbs.Event{Type: eventType(c._type),
		Port: int(c.port), QPN: uint32(c.qpn), Text: C.GoString(&c.text[0])}}, 0
}

func eventType(t C.int) verbs.EventType {
	switch t {
	case C.IBV_EVENT_CQ_ERR:
		return verbs.EventCQErr
	case C.IBV_EVENT_QP_FATAL:
		return verbs.EventQPFatal
	case C.IBV_EVENT_QP_ACCESS_ERR:
		return verbs.EventQPAccessErr
	case C.IBV_EVENT_QP_REQ_ERR:
		return verbs.EventQPReqErr
	case C.IBV_EVENT_PORT_ACTIVE:
		return verbs.EventPortActive
	case C.IBV_EVENT_PORT_ERR:
		return verbs.EventPortDown
	case C.IBV_EVENT_GID_CHANGE:
		return verbs.EventGIDChange
	case C.IBV_EVENT_LID_CHANGE:
		return verbs.EventLIDChange
	case C.IBV_EVENT_DEVICE_FATAL:
		return verbs.EventDeviceFatal
	}
	return verbs.EventOther
}

// stopEvents returns when no event can come any more.
func (d *device) stopEvents() {
	if d.async != nil {
		_ = d.async.Close() // it only watched
		d.events.Wait()
	}
}
