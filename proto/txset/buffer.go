package txset

import (
	"errors"

	"drtmd/store/layout"
	"drtmd/verbs"
)

// chunkImages is the number of images that are made room for at once. They never move.
const chunkImages = 16

// Buffers is memory for the images of an attempt's records.
type Buffers struct {
	pd     *verbs.PD
	stride int
	rooms  []room
	mrs    []*verbs.MR
}

// room is that of an image.
type room struct {
	bytes []byte // a stride
	sge   verbs.SGE
}

// Init has images of records, with room for values that are apart. They lie in memory that is registered
// in pd; nil: in plain memory, for protocols whose READs and WRITEs are the CPU's.
func (b *Buffers) Init(pd *verbs.PD, records []layout.Record) {
	b.pd, b.stride = pd, layout.LineBytes
	for i := range records {
		bytes := records[i].Bytes + records[i].Room
		b.stride = max(b.stride, (bytes+layout.LineBytes-1)&^(layout.LineBytes-1))
	}
}

// At gives image i, of a number of bytes that is at most a stride. It has room for whole lines.
func (b *Buffers) At(i, bytes int) (image []byte, sge verbs.SGE, err error) {
	if i >= len(b.rooms) {
		if err := b.grow(i); err != nil {
			return nil, verbs.SGE{}, err
		}
	}
	m := &b.rooms[i]
	return m.bytes[:bytes], verbs.SGE{Addr: m.sge.Addr, Length: uint32(bytes), LKey: m.sge.LKey}, nil
}

// grow makes room for images up to i.
func (b *Buffers) grow(i int) error {
	for i >= len(b.rooms) {
		var bytes []byte
		var sge verbs.SGE
		if b.pd == nil {
			bytes = make([]byte, chunkImages*b.stride)
		} else {
			mr, err := b.pd.AllocMR(chunkImages*b.stride, verbs.AccessLocalWrite, verbs.MROptions{NoHuge: true})
			if err != nil {
				return err
			}
			bytes, sge = mr.Bytes(), mr.SGE(0, mr.Len())
			b.mrs = append(b.mrs, mr)
		}
		for at := 0; at < chunkImages*b.stride; at += b.stride {
			b.rooms = append(b.rooms, room{bytes[at : at+b.stride : at+b.stride],
				verbs.SGE{Addr: sge.Addr + uint64(at), LKey: sge.LKey}})
		}
	}
	return nil
}

// Close frees the memory. Nothing of it is in flight. It may be called twice.
func (b *Buffers) Close() error {
	var errs []error
	for _, mr := range b.mrs {
		errs = append(errs, mr.Close())
	}
	b.rooms, b.mrs = nil, nil
	return errors.Join(errs...)
}
