package log

import "errors"

// Why memory is no log, a record does not count, or nothing can be appended.
var (
	// ErrNoLog: the memory was not formatted, or not by this program.
	ErrNoLog = errors.New("memory holds no log")
	// ErrVersion: the log or record is of another version of this program.
	ErrVersion = errors.New("other version of the log")
	// ErrHead: neither of the two heads has its checksum.
	ErrHead = errors.New("head of the log is damaged")
	// ErrEnd: there is no further record.
	ErrEnd = errors.New("end of the log")
	// ErrCut: the beginning of a record is there, and not all of it.
	ErrCut = errors.New("record is cut")
	// ErrChecksum: a record's bytes are not those that were appended.
	ErrChecksum = errors.New("record has a wrong checksum")
	// ErrEpoch: a record's epoch is below that of the one before it, or above the present one.
	ErrEpoch = errors.New("record has a wrong epoch")
	// ErrLength: a record is longer than its log allows.
	ErrLength = errors.New("record has an impossible length")
	// ErrPlace: bytes that came by RPC are no record for the place that they name.
	ErrPlace = errors.New("record does not belong there")
	// ErrTooLong: a record or reservation that never fits.
	ErrTooLong = errors.New("longer than the log takes")
	// ErrReserved: a record that was appended without room reserved for it.
	ErrReserved = errors.New("no room was reserved for the record")
	// ErrTruncate: a position that is no end of a record between head and tail.
	ErrTruncate = errors.New("log cannot be truncated to there")
)
