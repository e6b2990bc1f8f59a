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
	chunks []chunk
}

// chunk is room for chunkImages.
type chunk struct {
	bytes []byte
	sge   verbs.SGE // of all of them
	mr    *verbs.MR // nil: plain memory
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
	for i >= len(b.chunks)*chunkImages {
		if err := b.grow(); err != nil {
			return nil, verbs.SGE{}, err
		}
	}
	c, at := &b.chunks[i/chunkImages], i%chunkImages*b.stride
	sge = verbs.SGE{Addr: c.sge.Addr + uint64(at), Length: uint32(bytes), LKey: c.sge.LKey}
	return c.bytes[at : at+bytes : at+b.stride], sge, nil
}

func (b *Buffers) grow() error {
	if b.pd == nil {
		b.chunks = append(b.chunks, chunk{bytes: make([]byte, chunkImages*b.stride)})
		return nil
	}
	mr, err := b.pd.AllocMR(chunkImages*b.stride, verbs.AccessLocalWrite,
		verbs.MROptions{NoHuge: true})
	if err == nil {
		b.chunks = append(b.chunks, chunk{mr.Bytes(), mr.SGE(0, mr.Len()), mr})
	}
	return err
}

// Close frees the memory. Nothing of it is in flight. It may be called twice.
func (b *Buffers) Close() error {
	var errs []error
	for _, c := range b.chunks {
		if c.mr != nil {
			errs = append(errs, c.mr.Close())
		}
	}
	b.chunks = nil
	return errors.Join(errs...)
}
