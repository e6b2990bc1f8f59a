//go:build race

package ring

func testMemory(b []byte) memory { return memory{b, make([]uint64, len(b)/lineBytes), 1} }
