package verbs

// OnLineChange is for providers where nothing blocks (sim): f is called once, in the event loop, when the
// line word of 64-byte line number line differs from seen and is unlocked. Remote operations and HTM
// commits change line words; plain CPU stores do not. ErrUnsupported elsewhere: poll the memory.
func (mr *MR) OnLineChange(line int, seen uint64, f func()) (cancel func(), err error) {
	d, ok := mr.drv.(DriverLineNotifier)
	if !ok {
		return nil, mr.ctx.fail("notify on line change", ErrUnsupported)
	}
	return d.OnLineChange(line, seen, f), nil
}
