package hades

import "drtmd/proto/protocol"

// CPU time in picoseconds that the model charges beside the cycles of caches and NICs. HADES does not count
// instructions. All are assumed, from those of package occ, which runs the baseline: what Table I removes is left out.
const (
	beginPs   = 10_000 // of an attempt: its registers, and a pair of filters; occ: 60, with the sets that are emptied
	findPs    = 20_000 // of a look-up of a local record; occ: 40, with the copy of its value and its entry in a set
	requestPs = 10_000 // of a request to another node, as occ's
	accessPs  = 10_000 // of an access by the program, as occ's, beside that of protocol.HADESSoftware
)

// software is what HADES-H spends on each record of its own node, as the baseline does on all records (HADES §V-D: Read and
// Write sets like in SW-Impl). Of HADES there is the program only.
func (c *Chip) software() protocol.Software {
	if c.hybrid {
		return protocol.HADESSoftware()
	}
	return protocol.Software{}
}
