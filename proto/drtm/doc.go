// Package drtm is the transaction protocol of DrTM (§5 and §7 of "Fast In-Memory Transaction
// Processing Using RDMA and HTM"): two-phase locking with leases over one-sided RDMA between
// machines, hardware transactional memory, here emulated (package htm), within one.
//
// # A transaction
//
// transaction.go is Figure 9(a) from top to bottom, for the usual way in which an attempt runs:
//
//	START    look the remote records up; lock those to be written and lease the others until a
//	         common end, by CAS, and READ them; all in flight at once
//	LocalTX  local records inside a region, each with its state checked
//	COMMIT   end the region: lock its lines, confirm the leases, validate, publish; then write the
//	         remote updates back and unlock
//
// Figure 10 is remote.go, with the words of state.go put into records by package onesided, and
// local.go. The other ways to run an attempt are values of the same type: two rounds and leases on
// everything (readonly.go, §5.4), and the fallback handler (fallback.go, §7.2). hca.go is the commit for
// devices whose atomics do not exclude the CPU's (design decision 3); athome.go says which locks are the CPU's there.
// spare.go keeps the entries that nobody needs, and reclaim.go gives them back. A transaction without remote records posts nothing, waits for nothing and reads no clock.
//
// chain.go runs a transaction in pieces (§4), each of which is one of the above, and barrier.go publishes the last one of
// some (§4.2).
//
// # Deviations from the paper, and why
//
//   - Read-only transactions look for chains between their rounds; the paper waits for pieces before the first,
//     after which another chain can begin. A delivery of TPC-C defers nothing: see docs/CHOP.md.
//     Who defers is answered at the barrier, and applies its results itself: see barrier.go.
//   - The leases are confirmed inside the commit of the region, after its lines are locked and
//     before its reads are validated. The paper confirms, then executes XEND. Hardware aborts a thread
//     that sleeps in between; the emulation would commit on expired leases (design decision 6). The
//     paper's order is the mutation ConfirmBeforeLock.
//   - VALID reads the real clock; softtime serves EXPIRED and the choice of end times (design
//     decision 10).
//   - A locked state word has a ticket where an unlocked one has the lease's end: see State.
//   - An update is written back as version and value, two WRITEs, and the CAS that unlocks. The
//     state word is never the target of a WRITE (design decision 3).
//   - An absent record is protected like a present one: locally by the lines of its buckets or by
//     its tombstone, remotely by a lease on an absent entry that its machine makes by RPC.
//   - The READ behind a CAS shows the state word again: if it is not what the CAS left, the entry was
//     bound to the key only between the two.
//   - After LeaseAll or fallback attempts whose leases ended too early, reads take write locks.
//   - A joined lease that is no longer valid aborts START at once.
//   - The fallback handler locks records of ordered tables one by one, and looks at the ranges that were scanned a second
//     time (mutation RangesUnchecked). The paper's takes one lock of a warehouse for its order lines (§7.4).
//   - A transaction that needs a range of another machine asks for it by RPC. The paper sends a payment by name there as a
//     whole (§7.5).
//
// # Lost machines
//
// A transaction takes place when its leases are confirmed, with everything locked or validated. From then
// on it is committed, and its updates are written back until the queue pairs have used up their retries. If
// a machine cannot be reached, its record stays locked with the old value, so nobody reads it. The engine
// keeps the update, and makes it when the machine is connected again (Finish). Locks of dead machines stay
// until recovery. A transaction that meets such a lock aborts with proto.ReasonLocked, and after
// Config.OrphanAfter with proto.ReasonOrphaned: see Engine.Orphans.
//
// # Who may call what
//
// An Engine and its transactions belong to the worker's thread; each transaction belongs to the
// fiber that began it, which must not wait between Begin and the end of the transaction if there
// are local records: it would wait inside a region. Registered memory is the engine's, until
// Close.
//
// # Durability
//
// With Config.Durable each worker logs its transactions (§5.6) in the memory of the tables, which may outlive the
// process: logarea.go and chainlog.go have the bytes, logging.go says what is logged when, recover.go what an engine does with the
// logs of an earlier life. It deviates from the paper in this:
//
//   - Recovery gives a lock back, and writes an update back, only where it finds the transaction's own lock, by its
//     ticket. The paper compares versions. Here they decide about updates of regions only, which hold no lock.
//   - Without line words a region is not atomic with its log: the updates are logged between its validation and its
//     publication, with the local records locked. So their locks are logged ahead, too.
//   - Of an update of parts of a value (proto.WriteAt) only these are logged; memory has the rest.
//   - A whole transaction's logs lie in one slot, which is empty again as soon as its updates are confirmed.
//   - The paper does not say how a chopping log is ended. A chain has a slot of its own, which counts committed pieces
//     (chainlog.go).
package drtm
