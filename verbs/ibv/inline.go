//go:build cgo && linux

package ibv

// #include "shim.h"
import "C"

import (
	"drtmd/verbs"
)

// inlineSizes are tried from above; no query tells the limit. 400 is the most that some rxe
// take, mlx5 takes up to about 1 KiB at small queue sizes.
var inlineSizes = [...]int{1024, 912, 512, 400, 256, 220, 128, 64, 32}

// inlineLimit is the largest inline payload of a QP, found once per device.
func (p *provider) inlineLimit(d *device) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n, ok := p.inline[d.attr.Name]; ok {
		return n, nil
	}
	n, err := d.probeInline()
	if err == nil {
		p.inline[d.attr.Name] = n
	}
	return n, err
}

// probeInline creates QPs with falling sizes and reads back what was granted.
func (d *device) probeInline() (n int, err error) {
	domain, err := d.AllocPD()
	if err != nil {
		return 0, err
	}
	defer func() { err = orClose(err, domain) }()
	queue, err := d.CreateCQ(1, 0, nil, false)
	if err != nil {
		return 0, err
	}
	defer func() { err = orClose(err, queue) }()
	for _, size := range inlineSizes {
		c := queue.(*cq).c
		caps := C.struct_drt_caps{send_wr: 1, recv_wr: 1, send_sge: verbs.MaxSGE, recv_sge: 1,
			inline_bytes: C.uint32_t(size)}
		var q *C.struct_drt_qp
		if C.drt_create_qp(domain.(*pd).c, c, c, 0, nil, &caps, &q) != 0 {
			continue // too large
		}
		if err := failed("ibv_destroy_qp", C.drt_destroy_qp(q)); err != nil {
			return 0, err
		}
		return int(caps.inline_bytes), nil
	}
	return 0, nil
}

// orClose closes and gives the first error.
func orClose(err error, c interface{ Close() error }) error {
	if e := c.Close(); err == nil {
		return e
	}
	return err
}
