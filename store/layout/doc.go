// Package layout defines the bytes of tables: the layouts of records, and the buckets and slots of DrTM's
// hash table (§6.2, Figure 12). The host's side (package store) and the one-sided side (package store/remote)
// share it. It accesses only memory that its caller passes.
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
// One 8-byte store changes the slot word, after everything that it leads to and after its key word. So a
// reader over a NIC, without line words, can detect a slot that leads to a wrong entry: the entry has its own
// key.
//
// Hopscotch tables have no buckets, but records in their slots: see Hop.
//
// # Records
//
// The table's Layout says how a key's record lies in memory, and what a READ of it proves: OneVersion is
// DrTM's entry, LineVersions FaRM's object. An index writes the same header in both when it makes an entry
// for a key or gives one back: an entry starts at an address divisible by 64 with
//
//	+0   key      8   NoKey when it was given back; no key has that value
//	+8   version  8   incarnation in the high half, number in the low half
//	+16  state    8   the protocol's: locks and leases; bit 0 is a write lock in all of them
//	+24  the value, as the layout has it
//
// A change of a record writes the version word and, for a new value, everything from +24 on, and then unlocks
// the state. A layout with its header elsewhere needs its own index.
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
