// Package bloom models the Bloom filters of HADES (§V-B, §V-C, Table III): sets of 64-byte lines that
// answer "perhaps" or "certainly not", in a few hundred bytes.
//
// A plain filter (1,024 bits) has a line at two bits, which two fields of the CRC-32 of its byte address
// number. The write filter of a core has two sections: 512 bits by one field of the CRC, and 4,096 bits by
// the set of the last-level cache that the line maps to. Each bit of the second section stands for a few
// sets, so a set bit says where in the cache to look for the lines of the transaction (Figure 8).
//
// HADES does not say which bits of the CRC it takes, nor whether the 1,024 bits are one array or two banks
// of 512. Here the fields begin with the lowest bits, and the array is one; false positives are the same.
//
// A Filter belongs to one node of the simulator. It allocates when it is made, and when it first takes
// the content of a larger one. The package knows no transaction, reads no clock and starts no goroutine.
package bloom
