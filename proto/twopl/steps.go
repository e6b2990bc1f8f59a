package twopl

// Steps are the steps that an engine marks for the simulator's nemesis.
func Steps() []string {
	return []string{stepLocate, stepLock, stepLocked, stepCommit, stepWritten, stepCommitted,
		stepAbort, stepReleased, stepFinish}
}
