package hardware

import (
	"encoding/binary"
	"errors"
	"fmt"

	"drtmd/htm/bloom"
	"drtmd/htm/directory"
)

// A message on the wire, little endian. Who carries it tells from where to where.
//
//	0      1      2          4          8          12     14     16      18      20        22
//	+------+------+----------+----------+----------+------+------+-------+-------+---------+
//	| kind | Holds| Reads    | Request  | Attempt  | Node | TX   | lines | data  | Shadows |
//	+------+------+----------+----------+----------+------+------+-------+-------+---------+
//	then 8 bytes for each line, then 64 bytes for each line's data: of all lines, or of none. Behind the header of a Persist
//	or Mail follows its body, of Request bytes.
const (
	HeaderBytes  = 22
	AddressBytes = 8 // of a line
)

// ErrMessage refuses bytes that are no message.
var ErrMessage = errors.New("no message of a HADES NIC")

// encode appends a message.
func (m *Message) encode(b []byte) []byte {
	holds := byte(0)
	if m.Holds {
		holds = 1
	}
	b = append(b, byte(m.Kind), holds)
	b = binary.LittleEndian.AppendUint16(b, uint16(m.Reads))
	request := m.Request
	if m.bodied() {
		request = uint32(len(m.Body))
	}
	b = binary.LittleEndian.AppendUint32(b, request)
	b = binary.LittleEndian.AppendUint32(b, m.ID.Attempt)
	b = binary.LittleEndian.AppendUint16(b, uint16(m.ID.Node))
	b = binary.LittleEndian.AppendUint16(b, uint16(m.ID.TX))
	b = binary.LittleEndian.AppendUint16(b, uint16(len(m.Lines)))
	b = binary.LittleEndian.AppendUint16(b, uint16(len(m.Data)))
	b = binary.LittleEndian.AppendUint16(b, uint16(m.Shadows))
	for _, line := range m.Lines {
		b = binary.LittleEndian.AppendUint64(b, uint64(line))
	}
	for i := range m.Data {
		b = append(b, m.Data[i][:]...)
	}
	return append(b, m.Body...)
}

// bodied reports whether messages of the kind have a body, and no lines.
func (m *Message) bodied() bool { return m.Kind == Persist || m.Kind == Mail }

// decode reads a message from a node into an empty one.
func (m *Message) decode(b []byte) error {
	if len(b) < HeaderBytes {
		return fmt.Errorf("%w: %d bytes, a header has %d", ErrMessage, len(b), HeaderBytes)
	}
	m.Kind, m.Holds = Kind(b[0]), b[1] == 1
	m.Reads = int(binary.LittleEndian.Uint16(b[2:]))
	m.Request = binary.LittleEndian.Uint32(b[4:])
	m.ID = ID{NodeID(binary.LittleEndian.Uint16(b[12:])), directory.TX(binary.LittleEndian.Uint16(b[14:])),
		binary.LittleEndian.Uint32(b[8:])}
	m.Shadows = int(binary.LittleEndian.Uint16(b[20:]))
	lines, data := int(binary.LittleEndian.Uint16(b[16:])), int(binary.LittleEndian.Uint16(b[18:]))
	switch {
	case m.Kind == 0 || m.Kind >= kindEnd || b[1] > 1:
		return fmt.Errorf("%w: kind %d.%d", ErrMessage, b[0], b[1])
	case m.Reads > lines || m.Shadows > lines || data != 0 && data != lines:
		return fmt.Errorf("%w: %d lines, %d of them to be read, %d shadows, data of %d", ErrMessage, lines, m.Reads, m.Shadows,
			data)
	case m.bodied():
		if lines+data > 0 || uint64(len(b)-HeaderBytes) != uint64(m.Request) {
			return fmt.Errorf("%w: %d bytes for a body of %d", ErrMessage, len(b), m.Request)
		}
		m.Body, m.Request = append(m.Body, b[HeaderBytes:]...), 0
		return nil
	case len(b) != HeaderBytes+AddressBytes*lines+len(Data{})*data:
		return fmt.Errorf("%w: %d bytes for %d lines with data of %d", ErrMessage, len(b), lines, data)
	}
	b = b[HeaderBytes:]
	for range lines {
		m.Lines = append(m.Lines, bloom.Line(binary.LittleEndian.Uint64(b)))
		b = b[AddressBytes:]
	}
	for range data {
		m.Data = append(m.Data, Data(b))
		b = b[len(Data{}):]
	}
	return nil
}
