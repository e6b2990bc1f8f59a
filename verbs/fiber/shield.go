package fiber

// Shield keeps the fiber's waits from ending because of a cancellation, until Unshield, and
// reports whether they were kept from it before. It is for stretches that must be finished once
// they are begun, such as giving locks back; they have to be bounded by other means, as they
// delay the end of the scope and of the worker. A node that is killed ends them all the same.
func (f *Fiber) Shield() (was bool) {
	was, f.cleaning = f.cleaning, true
	return was
}

// Unshield ends what Shield began; was is what that reported. A cancellation that came meanwhile
// ends the next wait.
func (f *Fiber) Unshield(was bool) { f.cleaning = was }
