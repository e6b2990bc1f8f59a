package control

import (
	"bufio"
	"compress/gzip"
	"errors"
	"io"
)

// What nodes record travels compressed, at the fastest setting: half of it are digests, which look
// random, so that more effort would find little more.

// Compress compresses what is written to it; Close writes the rest, and leaves w open.
func Compress(w io.Writer) io.WriteCloser {
	b := bufio.NewWriterSize(w, chunkBytes) // the compressor writes a few hundred bytes at a time
	z, err := gzip.NewWriterLevel(b, gzip.BestSpeed)
	if err != nil {
		panic(err) // the level is one
	}
	return &compressor{z, b}
}

type compressor struct {
	*gzip.Writer
	to *bufio.Writer
}

func (c *compressor) Close() error { return errors.Join(c.Writer.Close(), c.to.Flush()) }

// Expand expands what is written to it into w. Close waits for the rest and fails if it was cut short,
// and leaves w open. It may be called twice.
func Expand(w io.Writer) io.WriteCloser {
	r, to := io.Pipe()
	e := &expander{to: to, done: make(chan struct{})}
	go func() {
		defer close(e.done)
		z, err := gzip.NewReader(r)
		if err == nil {
			_, err = io.Copy(w, z)
		}
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF // nothing at all
		}
		e.err = err
		_ = r.CloseWithError(err) // who writes more is told; never fails
	}()
	return e
}

type expander struct {
	to   *io.PipeWriter
	done chan struct{}
	err  error // valid after done
}

func (e *expander) Write(b []byte) (int, error) { return e.to.Write(b) }

func (e *expander) Close() error {
	_ = e.to.Close() // never fails
	<-e.done
	return e.err
}
