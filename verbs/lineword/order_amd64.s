//go:build amd64 && !race

#include "textflag.h"

// func storeRelease(p *uint64, v uint64)
// The processor keeps stores in order (TSO), so a plain one is a release.
TEXT ·storeRelease(SB), NOSPLIT, $0-16
	MOVQ p+0(FP), AX
	MOVQ v+8(FP), BX
	MOVQ BX, (AX)
	RET

// func storeRelease2(p *uint64, v uint64, q *uint64, w uint64)
TEXT ·storeRelease2(SB), NOSPLIT, $0-32
	MOVQ p+0(FP), AX
	MOVQ v+8(FP), BX
	MOVQ q+16(FP), CX
	MOVQ w+24(FP), DX
	MOVQ BX, (AX)
	MOVQ DX, (CX)
	RET

// func readLine(dst, src *[64]byte, p *uint64) (before, after uint64)
// The processor keeps loads in order (TSO): the line is read between the two looks.
TEXT ·readLine(SB), NOSPLIT, $0-40
	MOVQ  dst+0(FP), DI
	MOVQ  src+8(FP), SI
	MOVQ  p+16(FP), DX
	MOVQ  (DX), AX
	MOVOU 0(SI), X0
	MOVOU 16(SI), X1
	MOVOU 32(SI), X2
	MOVOU 48(SI), X3
	MOVQ  (DX), BX
	MOVOU X0, 0(DI)
	MOVOU X1, 16(DI)
	MOVOU X2, 32(DI)
	MOVOU X3, 48(DI)
	MOVQ  AX, before+24(FP)
	MOVQ  BX, after+32(FP)
	RET

// func CopyLine(dst, src *[64]byte)
TEXT ·CopyLine(SB), NOSPLIT, $0-16
	MOVQ  dst+0(FP), DI
	MOVQ  src+8(FP), SI
	MOVOU 0(SI), X0
	MOVOU 16(SI), X1
	MOVOU 32(SI), X2
	MOVOU 48(SI), X3
	MOVOU X0, 0(DI)
	MOVOU X1, 16(DI)
	MOVOU X2, 32(DI)
	MOVOU X3, 48(DI)
	RET

// func Pause()
TEXT ·Pause(SB), NOSPLIT, $0-0
	PAUSE
	RET

// func PrefetchWrite(p *uint64)
TEXT ·PrefetchWrite(SB), NOSPLIT, $0-8
	MOVQ p+0(FP), AX
	BYTE $0x0F; BYTE $0x0D; BYTE $0x08 // PREFETCHW (AX)
	RET

// func Prefetch(p *uint64)
TEXT ·Prefetch(SB), NOSPLIT, $0-8
	MOVQ p+0(FP), AX
	PREFETCHT0 (AX)
	RET

// func Prefetch2(p, q *uint64)
TEXT ·Prefetch2(SB), NOSPLIT, $0-16
	MOVQ p+0(FP), AX
	MOVQ q+8(FP), BX
	PREFETCHT0 (AX)
	PREFETCHT0 (BX)
	RET
