package verbstest

import (
	"encoding/binary"
	"fmt"
	"io"
)

// Kinds of frame between a test process and its child: 4 bytes length (little endian), 1 byte
// kind, payload.
const (
	framePlay    = 'p' // to the child: play this role
	frameMessage = 'm' // both ways
	frameEnd     = 'e' // to the child: nothing more comes
	frameFail    = 'f' // from the child: a failure of the case
	frameLog     = 'l'
	frameDone    = 'd' // from the child: the role has ended
)

const maxFrameBytes = 64 << 20

func writeFrame(w io.Writer, kind byte, payload []byte) error {
	b := make([]byte, 5+len(payload))
	binary.LittleEndian.PutUint32(b, uint32(len(payload)))
	b[4] = kind
	copy(b[5:], payload)
	_, err := w.Write(b)
	return err
}

func readFrame(r io.Reader) (byte, []byte, error) {
	var head [5]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	n := binary.LittleEndian.Uint32(head[:])
	if n > maxFrameBytes {
		return 0, nil, fmt.Errorf("frame of %d bytes", n)
	}
	b := make([]byte, n)
	_, err := io.ReadFull(r, b)
	return head[4], b, err
}
