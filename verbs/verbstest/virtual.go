package verbstest

// This file is what an environment with a World of its own needs besides Host.

// ErrEnded is what Host.Send and Host.Recv give when the peer has ended, or wants nothing more.
var ErrEnded = errEnded

// Play runs a role, the one that Host.Start was asked for, on a host. It returns when the role
// has ended; failures are the host's to note.
func Play(env Env, h Host, placement Placement, name string) {
	newProc(env.withDefaults(), h, placement).run(role(name))
}
