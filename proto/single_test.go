package proto_test

import (
	"testing"

	"drtmd/proto"
	"drtmd/verbs/fiber"
)

// oneRecord is an engine and a transaction that do nothing.
type oneRecord struct {
	proto.Engine
	proto.Tx
	d *proto.Decl
}

func (e *oneRecord) Begin(_ *fiber.Fiber, d *proto.Decl, _ int) (proto.Tx, error) {
	e.d = d
	return e, nil
}

func (*oneRecord) Read(proto.TableID, proto.Key, []byte) error  { return nil }
func (*oneRecord) Write(proto.TableID, proto.Key, []byte) error { return nil }
func (*oneRecord) Commit() error                                { return nil }

func TestTransactionsOfOneRecordAreDeclaredAndAllocateNothing(t *testing.T) {
	e := &oneRecord{}
	s := proto.Single{Runner: &proto.Runner{Engine: e}}
	value := make([]byte, 8)
	for _, mode := range []proto.Mode{proto.ModeRead, proto.ModeWrite} {
		run := func() {
			var err error
			if mode == proto.ModeRead {
				_, err = s.GetOne(nil, 2, 3, value)
			} else {
				_, err = s.PutOne(nil, 2, 3, value)
			}
			if want := (proto.Access{Table: 2, Mode: mode, Key: 3}); err != nil || len(e.d.Accesses) != 1 ||
				e.d.Accesses[0] != want || e.d.ReadOnly != (mode == proto.ModeRead) {
				t.Errorf("%v: declared as %+v, %v", mode, e.d, err)
			}
		}
		if n := testing.AllocsPerRun(100, run); n > 0 {
			t.Errorf("%v: %v allocations", mode, n)
		}
	}
}
