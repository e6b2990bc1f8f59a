// Package layout is the bytes of tables: the layouts of records, and the buckets and slots of the
// hash table that DrTM describes (§6.2, Figure 12). The host's side (package store) and the one-sided
// side (package store/remote) share it; it touches no memory but what it is handed.
//
// # Buckets
//
// A bucket is 128 bytes, two lines, at an address divisible by 128; a slot is 16:
//
//	bucket   0 slot 0 | 16 slot 1 | ... | 112 slot 7
//
//	slot     63 62 61       48 47                                0
//	        +-----+-----------+-----------------------------------+
//	   +0   |type | lossy  14 |            offset  48             |  the slot word
//	        +-----+-----------+-----------------------------------+
//	   +8   |                     key  64                         |
//	        +-----------------------------------------------------+
//
// The type says what the offset, counted from the start of the memory region, leads to: nothing
// (Free), the entry of the key, or the next bucket of the chain (Header). Only the eighth slot
// becomes a Header. The paper gives the codes twice, and differently: §6.2 has Entry = 10 and
// Header = 01, §6.3 Entry = 01, Header = 10 and Cached = 11. §6.3 is followed, because it alone
// names all of them. Cached stands only in the copies of a location cache.
//
// The lossy incarnation of an Entry slot is the low 14 bits of the incarnation that the entry had
// when the host last ensured it there; that of a Header slot counts the links that the table has
// made, so that a reader notices a link that was taken away and made again.
//
// The slot word is changed by one 8-byte store, after everything that it leads to; its key word
// before it. So a reader without line words, over a NIC, meets no slot that leads astray without
// notice: the entry says itself whose it is.
//
// Hopscotch tables have no buckets, but records in their slots: see Hop.
//
// # Records
//
// How a key's record lies in memory, and what a READ of it proves, is the table's Layout: OneVersion,
// DrTM's entry, or LineVersions, FaRM's object. What both have in common is what an index writes when
// it makes an entry for a key or gives one back: an entry starts at an address divisible by 64 with
//
//	+0   key      8   NoKey when it was given back; no key has that value
//	+8   version  8   incarnation in the high half, number in the low half
//	+16  state    8   the protocol's: locks and leases; bit 0 is a write lock in all of them
//	+24  the value, as the layout has it
//
// To change a record means to write its version word, for a new value all from +24 on, and then to
// unlock its state. A layout that has its header elsewhere comes with an index of its own.
//
// Entries are type-stable: the bytes of an entry are never anything else. The version word says
// whether the entry is bound to its key, and whether the key has a value: see Version and Match.
//
// # Byte order
//
// All words in memory, of records and of indexes, are little endian. CPUs and devices work on them as
// on integers of the machine, by atomic operations, so all machines of a cluster are little endian,
// and the package does not compile for others.
package layout
