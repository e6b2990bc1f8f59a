package fiber

import "drtmd/verbs"

// opcodes bounds an array that is indexed by opcode.
const opcodes = verbs.OpRecvWriteImm + 1

// statuses bounds an array that is indexed by status; the last one takes those beyond.
const statuses = verbs.WCGeneralErr + 1

// Stats of a worker; read by its own thread.
type Stats struct {
	Resumes   uint64 // fibers resumed
	Switches  uint64 // fibers parked
	Posted    uint64 // work requests
	Doorbells uint64 // post calls
	Completed uint64 // completions polled
	Tasks     uint64 // fibers started
	Stuck     uint64 // queue pairs given up because nothing completed for longer than retries take
	// Polls are the looks at the CQ, and EmptyPolls those that found nothing. Statuses counts the
	// completions by status.
	Polls      uint64
	EmptyPolls uint64
	Statuses   [statuses]uint64
	// Ops are the work requests by opcode, those of parts included; Bytes is their payload, in
	// whichever direction it goes.
	Ops   [opcodes]uint64
	Bytes uint64
	// BusyPs is the CPU time that the simulator has charged, in picoseconds; 0 on threads. Passes of a core with several
	// workers count for its first one.
	BusyPs uint64
}

// posted accounts for requests that were posted with one doorbell.
func (s *Stats) posted(wrs []verbs.WR) {
	s.Doorbells++
	s.Posted += uint64(len(wrs))
	for i := range wrs {
		wr := &wrs[i]
		s.Ops[wr.Op]++
		for j := range wr.NumSGE {
			s.Bytes += uint64(wr.SGE[j].Length)
		}
	}
}
