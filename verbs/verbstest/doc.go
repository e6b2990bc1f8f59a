// Package verbstest is the conformance suite of package verbs: one set of cases, run against
// every provider under the same names.
//
// # How a provider runs it
//
//	func TestMain(m *testing.M) { verbstest.Main(m, env()) }
//	func TestConformance(t *testing.T) { verbstest.Run(t, env()) }
//
// Env says how to open the device and how much time and how many rounds the cases may take.
// Main is needed because some peers are processes of their own: the test binary starts itself
// again, and Main turns that second process into a peer.
//
// # How a case is written
//
// A case is a function of its Proc, the node that it runs on. Everything that takes time goes
// through the Proc: Sleep, Now, WaitCQ, WaitEvent, Send, Recv, Start and Thread. No case uses a
// goroutine, a channel, a timer or the clock directly, so that the same text runs on goroutines,
// on processes and in the virtual time of a simulator (Host is the interface of such an
// environment). A peer is a role, found by name. Most cases use the role "agent", a node that executes
// verbs on request (Peer), so that a case reads from top to bottom. A case also states the capabilities
// that it needs: if a provider lacks one, the case runs under the same name and checks that the layer
// refuses with verbs.ErrUnsupported.
//
// Cases that have a peer run twice: once with goroutines, each with an open Context of its own,
// and once with processes.
package verbstest
