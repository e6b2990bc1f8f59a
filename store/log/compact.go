package log

import (
	"encoding/binary"

	"drtmd/internal/invariant"
)

// Decode takes apart what Encode or EncodeAgain of this writer gave; the record's body is appended to body.
func (w *Writer) Decode(encoded, body []byte) (Record, []byte) {
	le := binary.LittleEndian
	n := int(le.Uint32(encoded[4:]))
	invariant.Assert(w.span(n) == len(encoded), "bytes that no writer of this log has encoded")
	r := Record{Position: le.Uint64(encoded[8:]), Epoch: Epoch(le.Uint32(encoded[16:])),
		Type: Type(le.Uint16(encoded[20:])), ID: le.Uint64(encoded[24:])}
	per, from := w.perLine(), len(body)
	skip := recordBytes
	for i := 0; len(body)-from < n; i++ {
		line := encoded[i*lineBytes+skip : i*lineBytes+per]
		body = append(body, line[:min(len(line), n-(len(body)-from))]...)
		skip = 0
	}
	r.Body = body[from:]
	return r, body
}

// Encode appends the bytes that the writer's Encode gives for a record of this log, for Place. It is for records
// that came in another form.
func (l *Log) Encode(b []byte, r *Record) []byte {
	at, span := len(b), l.span(len(r.Body))
	for range span / lineBytes {
		b = append(b, make([]byte, lineBytes)...)
	}
	l.encode(b[at:], &l.header, r)
	return b
}
