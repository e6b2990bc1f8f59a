package verbs

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"
	"testing"
)

func TestEndpointRoundTrip(t *testing.T) {
	for _, e := range []Endpoint{
		goodEndpoint(),
		{Provider: "12345678", Type: UD, Link: LinkMemory, ActiveMTU: 256, QPN: 1,
			QKey: 0xffffffff},
		{Provider: "x", Type: RC, Link: LinkInfiniBand, ActiveMTU: 4096, LID: 0xffff,
			GID: GID{0: 1, 15: 2}, QPN: 1<<24 - 1, PSN: 1<<24 - 1, MaxRdAtomic: 255},
	} {
		b, err := e.MarshalBinary()
		check(t, err)
		var got Endpoint
		check(t, got.UnmarshalBinary(b))
		if len(b) != EndpointBytes || got != e {
			t.Fatalf("%d bytes, %+v became %+v", len(b), e, got)
		}
	}
}

func TestEndpointRefusesWhatItCannotEncode(t *testing.T) {
	for name, change := range map[string]func(*Endpoint){
		"no provider":         func(e *Endpoint) { e.Provider = "" },
		"long provider":       func(e *Endpoint) { e.Provider = "123456789" },
		"unprintable":         func(e *Endpoint) { e.Provider = "a\x00b" },
		"no type":             func(e *Endpoint) { e.Type = 0 },
		"no link":             func(e *Endpoint) { e.Link = 0 },
		"unknown link":        func(e *Endpoint) { e.Link = 9 },
		"MTU":                 func(e *Endpoint) { e.ActiveMTU = 1500 },
		"QPN 0":               func(e *Endpoint) { e.QPN = 0 },
		"QPN of 25 bits":      func(e *Endpoint) { e.QPN = 1 << 24 },
		"PSN of 25 bits":      func(e *Endpoint) { e.PSN = 1 << 24 },
		"max rd atomic 256":   func(e *Endpoint) { e.MaxRdAtomic = 256 },
		"max rd atomic of -1": func(e *Endpoint) { e.MaxRdAtomic = -1 },
	} {
		e := goodEndpoint()
		change(&e)
		_, err := e.MarshalBinary()
		wantErr(t, name, err, ErrBadEndpoint)
	}
}

func TestEndpointDecoderSaysWhatIsWrong(t *testing.T) {
	good, err := goodEndpoint().MarshalBinary()
	check(t, err)
	sum := func(b []byte) { binary.BigEndian.PutUint32(b[60:], endpointSum(b)) }
	for _, c := range []struct {
		name   string
		change func(b []byte) []byte
		words  string
	}{
		{"empty", func([]byte) []byte { return nil }, "0 bytes, not 64"},
		{"too long", func(b []byte) []byte { return append(b, 0) }, "65 bytes"},
		{"garbage", func(b []byte) []byte { return bytes.Repeat([]byte("GET / "), 11)[:64] },
			"not a drtmd endpoint"},
		{"another version", func(b []byte) []byte { b[4] = 2; sum(b); return b },
			"version 2, this side speaks 1"},
		{"a flipped bit", func(b []byte) []byte { b[33] ^= 1; return b }, "checksum"},
		{"reserved bytes", func(b []byte) []byte { b[50] = 1; sum(b); return b }, "reserved"},
		{"type", func(b []byte) []byte { b[5] = 9; sum(b); return b }, "QP type 9"},
		{"provider with a gap", func(b []byte) []byte { b[9] = 0; sum(b); return b }, "printable"},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := goodEndpoint()
			e := before
			err := e.UnmarshalBinary(c.change(bytes.Clone(good)))
			wantErr(t, "decode", err, ErrBadEndpoint)
			if !strings.Contains(err.Error(), c.words) {
				t.Errorf("%q does not say %q", err, c.words)
			}
			if e != before {
				t.Error("the endpoint was changed")
			}
		})
	}
}

// FuzzEndpoint: whatever decodes is in range and encodes to the same bytes; the rest is an
// ErrBadEndpoint. A second input that carries a right checksum gets past the first check.
func FuzzEndpoint(f *testing.F) {
	good, err := goodEndpoint().MarshalBinary()
	check(f, err)
	f.Add(good)
	f.Add([]byte("DRTM"))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, b := range [][]byte{b, withSum(b)} {
			var e Endpoint
			err := e.UnmarshalBinary(b)
			if err != nil {
				if !errors.Is(err, ErrBadEndpoint) {
					t.Fatalf("%v", err)
				}
				continue
			}
			again, err := e.MarshalBinary()
			if err != nil || !bytes.Equal(again, b) {
				t.Fatalf("%x became %+v and %x (%v)", b, e, again, err)
			}
		}
	})
}

// withSum makes 64 bytes with magic, version and checksum of b.
func withSum(b []byte) []byte {
	c := make([]byte, EndpointBytes)
	copy(c, b)
	copy(c, endpointMagic)
	c[4] = EndpointVersion
	binary.BigEndian.PutUint32(c[60:], endpointSum(c))
	return c
}
