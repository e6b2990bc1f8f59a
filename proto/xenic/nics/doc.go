// Package nics is Xenic's transaction protocol (§4.2) as programs of NICs with cores (package smartnic), and the part of
// their hosts. Locks and versions are in the NICs' indexes (package nicindex), records in the hosts' tables (package
// robinhood), and what is committed goes to the tables through logs in the hosts' memory (package log).
//
// # The steps
//
//	1  Host.Run, onBegin       the host sends the transaction to a core of its NIC, which coordinates it in a fiber
//	2  execute                 each primary's NIC locks what is written, and reads all: from its cache, or by DMA
//	3  compute                 the host makes the new values, or the NIC by a registered function (§4.2.2); either may ask
//	                           for more records, which takes another EXECUTE
//	4  validate                each primary's NIC compares the versions of what was read and is not locked
//	5  log, onLog              each backup's NIC appends the update to the log in its host's memory, and answers when
//	                           that, and all before it in the log, is there
//	6  end, commit             the host is told. Each primary's NIC appends to its own log, changes its cache, pins what
//	                           has changed, and unlocks when the log has it
//	7  Host.apply              the host applies its logs; its NIC frees their room and unpins
//
// multihop.go is §4.2.3: a call on one other shard, with the coordinator's own or without, is executed there.
//
// # Rules
//
//   - No-wait: a record that another transaction has locked ends the attempt; whoever wants it tries again.
//
//   - EXECUTE locks everything of a NIC before it waits for anything, so all or nothing of it is locked.
//
//   - A transaction of one record is not validated: it read the record at one moment. One that its program refuses is
//     validated like others: the refusal is an answer.
//
//   - Nobody validates what a multi-hop call reads of the coordinator's shard, because LOG is on its way before the
//     coordinator hears again. So the coordinator locks those records, too. The paper does not say what it does.
//
//   - The other node validates its own reads when all locks are held, and sends LOG in the coordinator's name. Backups
//     answer the coordinator, who counts (shard, backup). The first LOG carries what was written, and its answer takes
//     that to the coordinator: no message more than Figure 7(b) has.
//
//   - Backups apply an update when its transaction is decided, that is when all primaries have it, and if it is newer than
//     the record. Until then the host holds it (Yard). News of what is decided rides on LOGs (settle.go). The paper has
//     hosts apply LOGs as they come; but FaRM, whose recovery it takes over, truncates then.
//
//   - A coordinator that is a backup of what it writes has the primary hold a record, too (recovery.Holders).
//
//   - A transaction's ID is a recovery.Name with the epoch of its view. A NIC drops messages of older views, and keeps
//     those of newer ones until it is in them.
//
//   - A LOG is answered when its record can be read, which takes all records before it in the log: their DMAs may take
//     longer than its own.
//
//   - An absent record has a version, too: that of its deletion, or if it has no entry one with the incarnation of the last
//     deletion that the NIC has committed in its table. So versions of a key grow. The host gives the entry of a deleted
//     record back when nothing older can come any more: an older update is in a log, readable, before the deletion is.
//
//   - A local transaction (§4.2.4) locks what it writes at its NIC, which compares the versions of all that its host has
//     read. The paper has no such comparison.
//
//   - Bytes that no NIC sends are counted, and nothing is done.
//
// # Recovery (§4.2.1)
//
// Package recovery says what is decided, and view.go and recover.go how NICs come to it. A change of the members stops all
// transactions where they wait. Shards whose primary stays are served at once after it; a new primary makes its index anew,
// and first locks what undecided transactions write.
//
// # What is not here
//
// It allocates for each transaction. An update that a host's table does not take stops its host (ErrApply). In a
// recovery NICs look at what their host holds without a model of PCIe, and take no time for that.
//
// # Who may call what
//
// A NIC belongs to the event loop of its board; its cores share its memory, and change it between awaits only. A Host
// belongs to its worker. The hosts of a node, one for each thread, share a Yard.
package nics
