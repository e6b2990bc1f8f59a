package verbstest

import (
	"errors"

	"drtmd/verbs"
)

// extensionWR asks for an extension with n bytes of request and room for an answer of 100.
func (x *pair) extensionWR(number uint32, n int) verbs.WR {
	wr := verbs.WR{ID: 6, Op: verbs.OpExtension, Flags: verbs.FlagSignaled, Imm: number,
		NumSGE: 2, SGE: x.far.sge(0, n)}
	wr.SGE[1] = x.far.sge(1000, 100)[0]
	return wr
}

// lacksExtension checks the refusals of a provider without extensions.
func (x *pair) lacksExtension() bool {
	has := x.p.Context().Attr().Caps.Extension
	return x.p.lacks(has, "handle an extension", func() error {
		return x.p.Context().HandleExtension(1, func([]byte, []byte) (int, error) { return 0, nil })
	}) && x.p.lacks(has, "post an extension", func() error {
		_, err := x.qp.PostSend([]verbs.WR{{Op: verbs.OpExtension, NumSGE: 2}})
		return err
	})
}

func extension(p *Proc) {
	x := p.pair(spec{SGE: 2}, spec{SGE: 2})
	if x.lacksExtension() {
		return
	}
	p.Must("handle", p.Context().HandleExtension(9, func(req, resp []byte) (int, error) {
		for i := range req {
			resp[len(req)-1-i] = req[i]
		}
		return len(req), nil
	}))
	x.far.poke(0, testData(60, 1))
	for range 3 {
		x.far.post(x.extensionWR(9, 60))
		wc := x.far.sent(1)[0]
		want := verbs.WC{ID: 6, Op: verbs.WCOpcode(verbs.OpExtension), ByteLen: 60,
			QPN: x.far.endpoint.QPN}
		if wc != want {
			p.Fatalf("completion %+v, want %+v", wc, want)
		}
		got, req := x.far.peek(1000, 60), testData(60, 1)
		for i := range got {
			if got[i] != req[59-i] {
				p.Fatalf("byte %d of the answer is %#x", i, got[i])
			}
		}
	}
}

func extensionFails(p *Proc) {
	x := p.pair(spec{SGE: 2}, spec{SGE: 2})
	if x.lacksExtension() {
		return
	}
	p.Must("handle", p.Context().HandleExtension(9, func(_, _ []byte) (int, error) {
		return 0, errors.New("no")
	}))
	for number, want := range []verbs.WCStatus{9: verbs.WCRemOpErr, 10: verbs.WCRemInvReqErr} {
		if want == 0 {
			continue
		}
		x.far.post(x.extensionWR(uint32(number), 8))
		x.far.failed(x.far.sent(1)[0], 6, want)
		x.reconnect()
	}
}
