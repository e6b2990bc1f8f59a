//go:build linux && amd64

package fabric

import "testing"

// benchPair is two memberships on one fabric; the second one exports segment 1 and echoes.
func benchPair(b *testing.B) (f, g *Fabric) {
	b.Helper()
	dir := b.TempDir() + "/run"
	var pair [2]*Fabric
	for i := range pair {
		m, err := Open(Options{Dir: dir})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = m.Close() })
		pair[i] = m
	}
	f, g = pair[0], pair[1]
	s, err := g.NewSegment(SegmentOptions{Size: 64 << 10})
	if err != nil {
		b.Fatal(err)
	}
	g.Export(1, s)
	b.Cleanup(func() { _ = s.Close() })
	g.Handle(1, func(_ ProcID, req []byte) ([]byte, error) { return req, nil })
	return f, g
}

func BenchmarkAlive(b *testing.B) {
	f, g := benchPair(b)
	b.ReportAllocs()
	for b.Loop() {
		if !f.Alive(g.Self()) {
			b.Fatal("dead")
		}
	}
}

func BenchmarkCall(b *testing.B) {
	f, g := benchPair(b)
	req := make([]byte, 64)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := f.Call(g.Self(), 1, req, longEnough); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkImportAndClose(b *testing.B) {
	f, g := benchPair(b)
	b.ReportAllocs()
	for b.Loop() {
		s, err := f.Import(g.Self(), 1)
		if err != nil {
			b.Fatal(err)
		}
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkOpenAndClose(b *testing.B) {
	f, _ := benchPair(b)
	b.ReportAllocs()
	for b.Loop() {
		m, err := Open(Options{Dir: f.Dir()})
		if err != nil {
			b.Fatal(err)
		}
		if err := m.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkSignalAndDrain(b *testing.B) {
	e, err := NewEventFD()
	if err != nil {
		b.Fatal(err)
	}
	defer e.Close()
	b.ReportAllocs()
	for b.Loop() {
		if e.Signal() != nil || !e.Drain() {
			b.Fatal("lost")
		}
	}
}
