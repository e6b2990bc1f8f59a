package ring

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"drtmd/verbs/lines"
)

// TestMessagesComeOutAsTheyWentIn: any number of any length, over many laps of the ring, while their lines
// arrive in order, or in any order and by halves where each has a mark. No message is taken before it is
// there, and what is seen of it until then names a word that will change.
func TestMessagesComeOutAsTheyWentIn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := shape{capacity: uint64(rapid.IntRange(16, 40).Draw(t, "lines")) * lineBytes,
			generation: rapid.Uint64Min(1).Draw(t, "generation"), marks: rapid.Bool().Draw(t, "marks")}
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		from, b := make([]byte, s.capacity), make([]byte, s.capacity)
		for i := range b { // what was there before
			b[i] = byte(random.Uint32())
		}
		to := lines.Plain(b)
		s.wipe(to)
		position := uint64(0)
		for range rapid.IntRange(1, 60).Draw(t, "messages") {
			body := make([]byte, random.IntN(min(300, s.body(int(s.capacity)/lineBytes))))
			for i := range body {
				body[i] = byte(random.Uint32())
			}
			want := header{length: len(body), reserve: random.IntN(maxLines + 1), kind: request,
				flags: uint8(random.IntN(16)), id: random.Uint32(), epoch: random.Uint32(),
				head: uint64(random.Uint32()) * lineBytes, typ: uint8(random.Uint32())}
			n := s.put(from, position, &want, body)
			if n != s.span(len(body)) || len(body) > s.body(n/lineBytes) {
				t.Fatalf("%d bytes take %d, and %d bytes fit there", len(body), n, s.body(n/lineBytes))
			}
			var got header
			for _, part := range arrival(random, &s, position, n) {
				ok, watch, err := s.look(to, position, &got, false)
				if ok || err != nil || to.Load(watch) == binary.LittleEndian.Uint64(from[watch:]) {
					t.Fatalf("before the message was there: %v, %v, word at %d", ok, err, watch)
				}
				copy(b[part[0]:part[1]], from[part[0]:part[1]])
			}
			if ok, _, err := s.look(to, position, &got, false); !ok || err != nil || got != want {
				t.Fatalf("%+v, %v, %v, want %+v", got, ok, err, want)
			}
			out := make([]byte, len(body))
			if m := s.take(to, position, &got, out); m != n || !bytes.Equal(out, body) {
				t.Fatalf("%x of %d bytes, want %x of %d", out, m, body, n)
			}
			position += uint64(n)
			if ok, watch, err := s.look(to, position, &got, false); ok || err != nil || watch != s.at(position) {
				t.Fatalf("behind the last message: %v, %d, %v", ok, watch, err)
			}
		}
	})
}

// arrival is the order in which words of a message become visible: from offset to offset.
func arrival(random *rand.Rand, s *shape, position uint64, n int) (parts [][2]int) {
	order := random.Perm(n / lineBytes)
	for i := range order {
		line := order[i]
		if !s.marks {
			line = i
		}
		at := s.at(position + uint64(line*lineBytes))
		half := at + 8*random.IntN(8)
		parts = append(parts, [2]int{at, half}, [2]int{half, at + lineBytes})
	}
	// Halves of different lines mix.
	if s.marks {
		for range n / lineBytes {
			i := random.IntN(len(parts)-1) &^ 1
			j := i + 2
			if j+1 < len(parts) && random.IntN(2) == 0 {
				parts[i+1], parts[j] = parts[j], parts[i+1]
			}
		}
	}
	return parts
}

// TestALaterLifeTakesNothingOfAnEarlierOne: what was WRITTEN under another generation is no message.
func TestALaterLifeTakesNothingOfAnEarlierOne(t *testing.T) {
	for _, marks := range []bool{false, true} {
		s := shape{capacity: 1024, generation: 5, marks: marks}
		mem := make([]byte, 1024)
		h := header{kind: answer}
		s.put(mem, 0, &h, []byte("hello"))
		s.generation = 6
		if ok, _, err := s.look(lines.Plain(mem), 0, &h, false); ok || err == nil {
			t.Errorf("marks %v: %v, %v", marks, ok, err)
		}
	}
}

// FuzzLook: whatever a ring holds, a look at it stays inside, and what it takes for a message fits.
func FuzzLook(f *testing.F) {
	s := shape{capacity: 1024, generation: 7}
	mem := make([]byte, 1024)
	s.put(mem, 960, &header{kind: request, reserve: 3}, bytes.Repeat([]byte{9}, 200))
	f.Add(mem, uint64(960), uint64(7), false)
	f.Add([]byte{1, 2, 3}, uint64(1<<63), uint64(0), true)
	f.Fuzz(func(t *testing.T, b []byte, position, generation uint64, marks bool) {
		s := shape{capacity: 1024, generation: generation, marks: marks}
		mem := make([]byte, 1024)
		copy(mem, b)
		position &^= lineBytes - 1
		// A header that is its ring's is what a fuzzer does not find.
		binary.LittleEndian.PutUint32(mem[s.at(position):], s.tag(position))
		if len(b)%2 == 0 {
			for i := 0; i < 1024; i += lineBytes {
				at := s.at(position+uint64(i)) + lineBytes - lines.MarkBytes
				binary.LittleEndian.PutUint64(mem[at:], s.mark(position+uint64(i)))
			}
		}
		var h header
		ok, watch, err := s.look(lines.Plain(mem), position, &h, false)
		switch {
		case err != nil && ok, watch < 0 || watch > 1024-8 || watch%8 != 0:
			t.Fatalf("%v, %v, word at %d", ok, err, watch)
		case ok:
			if n := s.take(lines.Plain(mem), position, &h, make([]byte, h.length)); n > 1024 || n < lineBytes {
				t.Fatalf("%d bytes are taken", n)
			}
		}
	})
}

// FuzzOpening: what is taken is what put would say.
func FuzzOpening(f *testing.F) {
	o := opening{marks: true, capacity: 1024, generation: 3, ring: 1 << 20, credit: 8, rkey: 5, qpn: 6, psn: 7}
	b := make([]byte, openingBytes)
	o.put(b)
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		var o opening
		if takeOpening(b, 1024, &o) != nil {
			return
		}
		again := make([]byte, openingBytes)
		if o.put(again); !bytes.Equal(again, b) {
			t.Fatalf("%x becomes %x", b, again)
		}
	})
}
