package protocol

// Software is the CPU time in picoseconds that software of HADES' kind spends on a record, beside what engines charge for
// messages, tables and attempts: the program, and the rows of HADES Table I that its hardware removes. The simulator charges
// it; the zero value is nothing.
type Software struct {
	AccessPs  int64 // of an access by the program: its request, the copy of the value
	ReadSetPs int64 // of a record that is only read: its entry in the read set
	AtomicPs  int64 // of the same: the comparison of its lines' versions, and the copy after it
	WritePs   int64 // of a record that is written: its entry in the write set
	VersionPs int64 // of the same: its new versions
}

// HADESSoftware is that of HADES' baseline and, for records of its own node, of HADES-H. AccessPs is that of HADES' cores,
// too, because its hardware does not shorten the program.
//
// The numbers are calibrated, and frozen since: with them the overheads of HADES Figure 3 are 59, 65 and 71 % of the time of
// transactions of five requests that only write, do both, or only read, within 5 points (`drtmd reproduce hades/figure-3`;
// values of 16 bytes, uniform). The three sums bind AccessPs, ReadSetPs + AtomicPs and WritePs + VersionPs; how the two of
// a pair share theirs is assumed. A record that is written is compared with its version when it is locked, so it has no
// AtomicPs.
func HADESSoftware() Software {
	return Software{AccessPs: 150_000, ReadSetPs: 550_000, AtomicPs: 550_000, WritePs: 40_000, VersionPs: 20_000}
}

// Record is what a record takes: one that is only read, or one that is written.
func (s *Software) Record(written bool) int64 {
	if written {
		return s.WritePs + s.VersionPs
	}
	return s.ReadSetPs + s.AtomicPs
}
