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
// several lines), runs transactions on it, and verifies what is left: no record is locked, nothing
// is registered twice, and the recorded history is strictly serializable. Where a protocol does not
// offer something, such as accesses that were not declared, the case runs under the same name and
// tests that it is refused in words.
//
// # Stories
//
// Stories (testdata/stories) are transactions interleaved step by step, as text: what each sees, and
// what lies in memory afterwards. They run in the simulator.
//
// # What it does not do
//
// It injects no faults but broken queue pairs: crashes, lost messages and clocks that err are the
// scenarios' (package proto/scenario).
package enginetest
