//go:build !linux || !amd64 || race

package htm_test

// playsChild: race builds keep memory on the heap, so no process dies in their tests.
func playsChild() {}
