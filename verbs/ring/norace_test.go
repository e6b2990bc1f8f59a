//go:build !race

package ring

func testMemory(b []byte) memory { return memory{b} }
