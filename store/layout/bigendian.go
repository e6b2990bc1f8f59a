//go:build armbe || arm64be || m68k || mips || mips64 || mips64p32 || ppc || ppc64 || s390 || s390x || shbe || sparc || sparc64

package layout

// Words of records are little endian, and devices and CPUs work on them as on words of their own: see
// the package comment. A build for a big-endian machine fails here.
var _ int = "drtmd's memory layouts need a little-endian machine"
