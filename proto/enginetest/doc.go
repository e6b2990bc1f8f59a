// Package enginetest is the suite of proto.Engine: one set of cases, run by name for every protocol
// on every host. A protocol's own tests keep what only its paper claims.
//
// # How it is run
//
//	func TestEngines(t *testing.T) { enginetest.Run(t, protocol, hosts...) }
//
// A Host says where the cluster of a case runs: shared memory, a provider of RDMA devices, or the
// simulator, there with line words and without.
//
// # What a case is
//
// A case builds a cluster of its own with tables of three value sizes (within a line, a whole line,
// several lines), runs transactions on it, and verifies the result: no record is locked, no memory is
// registered twice, and the recorded history is strictly serializable. If a protocol does not offer
// something, such as undeclared accesses, the case runs under the same name and tests that the engine
// refuses it with an error that says so.
//
// # Stories
//
// Stories (testdata/stories) are transactions interleaved step by step, as text: what each sees, and
// the memory afterwards. They run in the simulator.
//
// # What it does not do
//
// Its faults are broken queue pairs, and the death of a machine that holds locks. Package proto/scenario injects
// crashes everywhere, recovery, lost messages and clock errors.
package enginetest
