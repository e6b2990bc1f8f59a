// Package lookup reproduces Table VI of the DrTM paper: how many one-sided READs a look-up takes,
// not counting the one of the record itself, in a table that is 50, 75 and 90 % full, with keys
// drawn uniformly and by Zipf's law. It needs no hardware: READs are counted, not timed.
//
// Cluster hashing is the real thing: package store fills the table, package store/remote looks
// the keys up, and each bucket that it asks for counts. Cuckoo and hopscotch hashing are simple
// implementations for comparison, of what the authors compared with: a cuckoo table of three
// hashes and one slot per bucket (Pilaf), and hopscotch over buckets of four slots with chains of
// two-slot nodes (FaRM's variant; the classic slot by slot table gives other numbers).
//
// # How the paper's numbers are read
//
//   - Occupancy is keys over main slots, and keys are 0 to K-1, inserted in order. Averages do not
//     depend on the size of the table.
//   - Cluster's row is that of eight keys in a bucket and a link beside them. In Figure 12 the
//     link takes the eighth slot's place, and that is the layout here; the same table is counted
//     both ways.
//   - A Zipf cell is one run in which the hottest key alone weighs 5.5 %. Which key is hot is
//     chance, so the expected value is that of the uniform row; the mean over many scramblings and
//     the standard deviation of one run are given beside our run.
//   - With cache: the paper states neither size nor length of the run. The fitted reading is a
//     cold, direct mapped cache of single keys with half as many places as there are slots, after
//     0.6 look-ups per slot; it is labelled as fitted. This store's own cache, of buckets, with the
//     same number of bytes and look-ups, is beside it.
package lookup
