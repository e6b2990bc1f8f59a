package hardware

import (
	"errors"
	"reflect"
	"testing"

	"drtmd/htm/bloom"
)

func samples() []*Message {
	return []*Message{
		{Kind: Ack, ID: ID{3, 4, 5}},
		{Kind: Read, ID: ID{1, 0, 1 << 31}, Request: 7, Lines: []bloom.Line{1, 1 << 40}},
		{Kind: WriteFetch, ID: ID{1, 2, 3}, Request: 1, Lines: []bloom.Line{4, 5, 6}, Shadows: 2},
		{Kind: Reserve, ID: ID{1023, 32767, 1}, Reads: 1, Lines: []bloom.Line{9, 8}},
		{Kind: Persist, ID: ID{1, 2, 3}, Body: []byte("a record")},
		{Kind: Done, ID: ID{1, 2, 3}, Request: uint32(Persist)},
		{Kind: Validation, ID: ID{0, 0, 1}, Lines: []bloom.Line{2, 3}, Data: []Data{{1}, {63: 2}}},
	}
}

func TestMessagesSurviveTheWire(t *testing.T) {
	for _, m := range samples() {
		var got Message
		if err := got.decode(m.encode(nil)); err != nil || !reflect.DeepEqual(&got, m) {
			t.Errorf("%v became %v, %v", m, &got, err)
		}
	}
}

func TestDamagedMessagesAreRefused(t *testing.T) {
	for _, m := range samples() {
		b := m.encode(nil)
		for n := range b {
			var got Message
			if err := got.decode(b[:n]); !errors.Is(err, ErrMessage) {
				t.Errorf("%d of %d bytes of %v: %v", n, len(b), m, err)
			}
		}
	}
}

// FuzzMessage: whatever is taken for a message is that message.
func FuzzMessage(f *testing.F) {
	for _, m := range samples() {
		f.Add(m.encode(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var m Message
		if err := m.decode(b); err != nil {
			return
		}
		if again := m.encode(nil); string(again) != string(b) {
			t.Errorf("%x became %x", b, again)
		}
	})
}
