package engine_test

import (
	"encoding/binary"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"drtmd/proto"
	"drtmd/proto/rtx/engine"
	"drtmd/verbs"
	"drtmd/verbs/fiber"
	"drtmd/verbs/ibv"
	"drtmd/verbs/shm"
)

// benchKeys are in the tree of BenchmarkLookUp.
const benchKeys = 1000

// BenchmarkLookUp is a cached look-up of rTX on Sherman, one in flight: docs/BENCH.md compares it with ib_read_lat in a
// guest. The metric is the median, since other programs stop the thread now and then.
func BenchmarkLookUp(b *testing.B) {
	for name, open := range map[string]func(b *testing.B) verbs.Provider{
		"shm": func(b *testing.B) verbs.Provider {
			return shm.New(shm.Options{Dir: filepath.Join(b.TempDir(), "fabric")})
		},
		"ibv": func(b *testing.B) verbs.Provider {
			p := ibv.New()
			if devices, err := p.Devices(); err != nil || len(devices) == 0 {
				b.Skipf("no RDMA device: %d devices, %v", len(devices), err)
			}
			return p
		},
	} {
		b.Run(name, func(b *testing.B) {
			system, _ := engine.FindSystem("rtx")
			index, _ := engine.FindIndex("sherman")
			bed := newBedOn(b, open(b), system, index)
			must(b, bed.run(system.Name, func(e *engine.Engine, f *fiber.Fiber) error { return lookUps(b, e, f) }))
		})
	}
}

func lookUps(b *testing.B, e *engine.Engine, f *fiber.Fiber) error {
	var value [8]byte
	d := proto.Decl{Accesses: []proto.Access{{Table: 1, Mode: proto.ModeInsert}}}
	for k := range proto.Key(benchKeys) {
		d.Accesses[0].Key = k
		binary.LittleEndian.PutUint64(value[:], uint64(k))
		if err := once(e, f, &d, func(tx proto.Tx) error { return tx.Insert(1, k, value[:]) }); err != nil {
			return err
		}
	}
	d.ReadOnly, d.Accesses[0].Mode = true, proto.ModeRead
	k := proto.Key(0)
	get := func(tx proto.Tx) error { return tx.Read(1, k, value[:]) }
	source := rand.New(rand.NewPCG(1, 2))
	took := make([]float64, 0, 1<<20)
	b.ReportAllocs()
	for b.Loop() {
		k = proto.Key(source.IntN(benchKeys))
		d.Accesses[0].Key = k
		begin := time.Now()
		if err := once(e, f, &d, get); err != nil {
			return err
		}
		if len(took) < cap(took) {
			took = append(took, float64(time.Since(begin).Nanoseconds()))
		}
	}
	slices.Sort(took)
	b.ReportMetric(took[len(took)/2], "median-ns")
	return nil
}
