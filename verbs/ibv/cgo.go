//go:build cgo && linux

package ibv

// #cgo CFLAGS: -std=gnu11 -O2 -Wall -Wextra
// #cgo LDFLAGS: -libverbs
// #cgo noescape drt_post_send
// #cgo nocallback drt_post_send
// #cgo noescape drt_post_recv
// #cgo nocallback drt_post_recv
// #cgo noescape drt_poll
// #cgo nocallback drt_poll
// #cgo noescape drt_arm
// #cgo nocallback drt_arm
// #cgo noescape drt_get_cq_events
// #cgo nocallback drt_get_cq_events
// #include "shim.h"
import "C"

import (
	"syscall"
	"unsafe"

	"drtmd/verbs"
)

// The layouts are shared with C, which asserts its side in data.c.
var (
	_ [unsafe.Sizeof(verbs.WR{})]byte     = [C.sizeof_struct_drt_wr]byte{}
	_ [unsafe.Sizeof(verbs.RecvWR{})]byte = [C.sizeof_struct_drt_recv_wr]byte{}
	_ [unsafe.Sizeof(verbs.WC{})]byte     = [C.sizeof_struct_drt_wc]byte{}
	_ [unsafe.Sizeof(verbs.SGE{})]byte    = [C.sizeof_struct_ibv_sge]byte{}

	_ [unsafe.Offsetof(verbs.WR{}.Imm)]byte        = [20]byte{}
	_ [unsafe.Offsetof(verbs.WR{}.RemoteAddr)]byte = [24]byte{}
	_ [unsafe.Offsetof(verbs.WR{}.CompareAdd)]byte = [40]byte{}
	_ [unsafe.Offsetof(verbs.WR{}.RemoteQKey)]byte = [56]byte{}
	_ [unsafe.Offsetof(verbs.RecvWR{}.SGE)]byte    = [24]byte{}
	_ [unsafe.Offsetof(verbs.SGE{}.LKey)]byte      = [12]byte{}
	_ [unsafe.Offsetof(verbs.WC{}.Raw)]byte        = [40]byte{}
	_ [verbs.OpFAA]byte                            = [7]byte{}
	_ [verbs.OpRecv]byte                           = [8]byte{}
	_ [verbs.FlagInline]byte                       = [8]byte{}
	_ [verbs.WCWithImm]byte                        = [2]byte{}
	_ [verbs.WCGeneralErr]byte                     = [C.IBV_WC_GENERAL_ERR]byte{}
	_ [verbs.AccessRemoteAtomic]byte               = [C.IBV_ACCESS_REMOTE_ATOMIC]byte{}
)

// failed makes an error of an errno; 0 is none.
func failed(op string, errno C.int) error {
	if errno == 0 {
		return nil
	}
	return &verbs.Error{Op: op, Errno: syscall.Errno(errno)}
}
