//go:build !linux

package hostmem

// Huge asks for huge pages; here nobody grants them.
func Huge([]byte) {}
