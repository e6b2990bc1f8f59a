package control

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"
)

func TestWhatIsCompressedComesBackOrIsCutShort(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	content := make([]byte, 3*chunkBytes)
	for i := range content {
		content[i] = byte(r.IntN(4))
	}
	var sent bytes.Buffer
	z := Compress(Chunks(func(b []byte) error {
		sent.Write(b)
		return nil
	}))
	if _, err := z.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if sent.Len() > len(content)/2 {
		t.Errorf("%d bytes became %d", len(content), sent.Len())
	}
	for _, n := range []int{sent.Len(), sent.Len() - 1, sent.Len() / 2, 3, 0} {
		var got bytes.Buffer
		e := Expand(&got)
		_, err := e.Write(sent.Bytes()[:n])
		err = errors.Join(err, e.Close())
		if whole := n == sent.Len(); whole != (err == nil) || whole && !bytes.Equal(got.Bytes(), content) {
			t.Errorf("%d of %d bytes: %v, %d came out", n, sent.Len(), err, got.Len())
		}
	}
	full := errors.New("disk full")
	e := Expand(Chunks(func([]byte) error { return full }))
	_, err := e.Write(sent.Bytes())
	if err := errors.Join(err, e.Close()); !errors.Is(err, full) {
		t.Errorf("%v", err)
	}
}
