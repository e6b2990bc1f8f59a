package node

import (
	"errors"
	"reflect"
	"testing"

	"drtmd/proto"
	"drtmd/store"
	"drtmd/store/layout"
	"drtmd/verbs"
	"drtmd/verbs/rpc"
)

// described is a descriptor with everything in it.
func described(nodes, workers int) Descriptor {
	e := verbs.Endpoint{Provider: "shm", Type: verbs.RC, Link: verbs.LinkMemory, ActiveMTU: 4096,
		GID: verbs.GID{1, 2, 3}, QPN: 7, PSN: 9, MaxRdAtomic: 16}
	d := Descriptor{Node: 1, ClockError: 123}
	tables := []layout.Descriptor{store.For(1, "t", 8, 100).Descriptor(0),
		store.For(2, "u", 16, 10).Descriptor(1 << 16)}
	for i := range min(nodes, 2) {
		d.Shares = append(d.Shares, ShareDescriptor{Shard: proto.ShardID(i), Tables: tables,
			Memory: verbs.RemoteMR{Addr: uint64(i+1) << 24, Length: 1 << 20, RKey: uint32(i + 5)}})
	}
	for i := range (nodes - 1) * workers {
		d.Logs = LogsDescriptor{Memory: verbs.RemoteMR{Addr: 1 << 30, Length: 1 << 20, RKey: 9}, Bytes: 1 << 16,
			Marks: true, Rings: append(d.Logs.Rings, RingDescriptor{uint64(i) + 1, 64, 128})}
	}
	for range workers {
		w := WorkerDescriptor{}
		for range nodes {
			w.Endpoints = append(w.Endpoints, e)
		}
		if nodes > 1 {
			ud := e
			ud.Type = verbs.UD
			w.Port = rpc.Address{Endpoint: ud, Incarnation: 77}
		}
		d.Workers = append(d.Workers, w)
	}
	return d
}

func TestDescriptorsSurviveTheWire(t *testing.T) {
	for _, c := range []struct {
		name           string
		nodes, workers int
	}{{"alone", 1, 1}, {"three nodes", 3, 2}} {
		t.Run(c.name, func(t *testing.T) {
			d := described(c.nodes, c.workers)
			b, err := d.MarshalBinary()
			if err != nil {
				t.Fatal(err)
			}
			var got Descriptor
			if err := got.UnmarshalBinary(b); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, d) {
				t.Errorf("got %+v\nwant %+v", got, d)
			}
			for i := range b {
				bad := append([]byte{}, b...)
				bad[i] ^= 1
				if err := got.UnmarshalBinary(bad); !errors.Is(err, ErrBadDescriptor) {
					t.Fatalf("byte %d changed: %v", i, err)
				}
				if err := got.UnmarshalBinary(b[:i]); !errors.Is(err, ErrBadDescriptor) {
					t.Fatalf("%d bytes: %v", i, err)
				}
			}
			if !reflect.DeepEqual(got, d) {
				t.Error("a refused descriptor changed the receiver")
			}
		})
	}
}

func TestShareDescriptorsSurviveTheWire(t *testing.T) {
	want := described(2, 1).Shares[1]
	b, err := want.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	var got ShareDescriptor
	if err := got.UnmarshalBinary(b); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v\nwant %+v", got, err, want)
	}
	for n := range len(b) {
		if err := got.UnmarshalBinary(b[:n]); !errors.Is(err, ErrBadDescriptor) {
			t.Fatalf("%d bytes: %v", n, err)
		}
	}
	if err := got.UnmarshalBinary(append(b, 0)); !errors.Is(err, ErrBadDescriptor) {
		t.Errorf("a byte more: %v", err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Error("a refused share changed the receiver")
	}
}

func FuzzDescriptor(f *testing.F) {
	b, err := described(3, 2).MarshalBinary()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add(b[:headBytes])
	f.Fuzz(func(t *testing.T, b []byte) {
		var d Descriptor
		if err := d.UnmarshalBinary(b); err == nil {
			if _, err := d.MarshalBinary(); err != nil {
				t.Errorf("decoded, but does not encode: %v", err)
			}
		} else if !errors.Is(err, ErrBadDescriptor) {
			t.Errorf("error %v", err)
		}
	})
}

func TestMachineClockAgreesWithTheMachine(t *testing.T) {
	epoch, err := MachineNow()
	if err != nil {
		t.Fatal(err)
	}
	c, wrong, err := NewMachineClock(epoch)
	if err != nil {
		t.Fatal(err)
	}
	if wrong < 0 {
		t.Errorf("error of %s", wrong)
	}
	for range 1000 {
		before, err := MachineNow()
		if err != nil {
			t.Fatal(err)
		}
		now := c.Now()
		after, err := MachineNow()
		if err != nil {
			t.Fatal(err)
		}
		if now+wrong < before-epoch || now-wrong > after-epoch {
			t.Fatalf("reads %s, between %s and %s, error at most %s", now, before-epoch, after-epoch,
				wrong)
		}
	}
}
