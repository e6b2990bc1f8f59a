// Package sherman is a B-link tree on repairable transactions: Sherman as section 5 of 003 describes it.
//
// Every node is an object of package rtx, 1 KB as a rule. An operation on the tree is part of a transaction, so
// several may be one transaction, and a split with all that it changes is one, up to a new root:
//
//	err := c.Run(f, func(tx Tx) error { return tree.Insert(tx, key, value) })
//
// # Nodes
//
//	0 right sibling 44 bits, number of entries 8, level 8 | high key 8 | entries: key 8, value or child 8 | ...
//
// A node has the keys below its high key, which is that of no key for the last node of a level. A block of 1 KB has
// 62 entries. With Config.Versions an entry has a version besides, so that histories can be checked, and a node
// remembers the newest incarnation of the keys that were deleted from it: 41 entries.
//
// # The cache
//
// A tree keeps copies of internal nodes, which were consistent when they were copied. They may be out of date: nodes
// are never freed and never give up their lower keys, so a copy leads to the right leaf or to one on its left, and
// the high keys tell. Whoever had to go right forgets the copy that was out of date. Trees on one thread may share
// their copies. Leaves are read by the transaction and validated by its commit.
//
// # Deviations
//
// Section 5 locks a leaf before it is updated (Opt2): here Tx.ReadToUpdate does, if rtx.Config.EarlyLocks says so. A leaf
// that a look-up has read before in the same transaction is locked by the commit. A leaf that is emptied by deletions
// stays. Sherman's own optimisations of its verbs (combined commands, on-chip locks) are not
// here.
//
// # Who may call what
//
// A Tree belongs to one Client and its fiber. It allocates nothing after Open.
package sherman
