// Package nicindex is Xenic's index on the NIC (§4.1.3): for each segment of the host's table (package robinhood) an
// entry with the displacement and the overflow block that the NIC knows of, and the objects of the segment that are
// cached or take part in transactions, each with its version and its lock. Locks are nowhere else (§4.2.1).
//
// # Memory
//
// The paper draws no bits. Here all is counted against a budget of NIC memory (Config.Budget): pages of two lines,
// one for each segment and more for chains, and value slots.
//
//	page      0 segment word 8 | 8 next page and one, 0: none 4 | 12 segment 4 | 16 known 1, unused 15 |
//	          32 position 0 | 64 position 1 | 96 position 2
//
//	position  0 key 8, NoKey: free | 8 version 8 | 16 owner of the lock 8, 0: none | 24 value slot and one, 0: none 4 |
//	          28 pins 2 | 30 reads under way 1 | 31 flags 1: version known, used lately, value known
//
//	value     0 value, in whole words | its position 4, in a list
//
// # What an object is, and when it may go
//
// A key has an object if it is locked, if its value is in the cache, if the host has still to apply a commit of it
// (pinned), or if a DMA reads it. A key without an object is as the host's table has it. Locked and pinned objects and
// those that are being read stay; others are evicted when room is needed, those first that were not used since a hand
// passed over them. So a value that a DMA brings is taken only into an object that waited for it, and only if nobody
// has committed meanwhile: no stale value enters the cache. A lock reserves the room of the value that a commit will
// bring, so a commit never fails; without room the lock is refused (Full).
//
// # Concurrency
//
// An Index belongs to the event loop of its NIC: programs change it between awaits only. It knows nothing of DMA;
// Hint and LearnHint serve robinhood.Probe. Nothing allocates but New.
package nicindex
