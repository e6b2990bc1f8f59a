package history

import (
	"errors"
	"fmt"
)

// ErrMemoryFull: the recording outgrew its memory and has no directory to go on in.
var ErrMemoryFull = errors.New(
	"history: recording outgrew its memory; give it a spill directory or more memory")

// ErrTooManyOps: a transaction did more than MaxOps operations.
var ErrTooManyOps = fmt.Errorf("history: transaction of more than %d operations; split it",
	MaxOps)

// ErrClockBackwards: a transaction ended before it started.
var ErrClockBackwards = errors.New(
	"history: transaction ended before it started; record both times on one clock")

// ErrTold: a transaction ended in another way than its client had been told.
var ErrTold = errors.New("history: transaction was told to be committed, and ended otherwise")

// ErrMerge: segments do not belong into one history.
var ErrMerge = errors.New("history: segments do not belong together")

// FormatError: a file is not a history, or not the whole of one.
type FormatError struct {
	Path   string
	Offset int64 // of the part that is wrong, in bytes
	What   string
}

func (e *FormatError) Error() string {
	return fmt.Sprintf("history %s: at offset %d: %s", e.Path, e.Offset, e.What)
}

// Texts of FormatError.
const (
	whatNotHistory = "not a history: it does not begin with its magic number"
	whatHeader     = "damaged header; get the file anew from where it was recorded"
	whatCut        = "cut short; copy the file again, or record again if the run was interrupted"
	whatBlock      = "damaged block header; get the file anew from where it was recorded"
	whatChecksum   = "block does not match its checksum; get the file anew"
	whatContent    = "block with a matching checksum makes no sense; tell who wrote this file"
	whatCounts     = "end record does not match the blocks before it; get the file anew"
	whatTrailing   = "data after the end record; get the file anew"
)
