package twopl

// CPULocks reports whether local records are locked by the CPU: asked for, and possible here.
func (e *Engine) CPULocks() bool { return e.cpuLocks }
