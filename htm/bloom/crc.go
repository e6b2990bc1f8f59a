package bloom

import "hash/crc32"

// Line numbers a line of a node's memory: its byte address over 64.
type Line uint64

// lineShift makes a byte address of a line.
const lineShift = 6

// tables are those of slicing by eight: tables[k][b] is the CRC-32 of byte b with k zero bytes behind it.
// Nothing writes them after their making. hash/crc32 would allocate for each line: its bytes escape.
var tables = makeTables()

func makeTables() (t [8][256]uint32) {
	t[0] = *crc32.IEEETable
	for b := range t[0] {
		for k := 1; k < len(t); k++ {
			before := t[k-1][b]
			t[k][b] = t[0][byte(before)] ^ before>>8
		}
	}
	return t
}

// Hash is the CRC-32 (reflected polynomial 0xEDB88320) of the line's byte address, lowest byte first.
func Hash(line Line) uint32 {
	a := uint64(line)<<lineShift ^ 0xFFFFFFFF
	return ^(tables[7][byte(a)] ^ tables[6][byte(a>>8)] ^ tables[5][byte(a>>16)] ^ tables[4][byte(a>>24)] ^
		tables[3][byte(a>>32)] ^ tables[2][byte(a>>40)] ^ tables[1][byte(a>>48)] ^ tables[0][byte(a>>56)])
}
