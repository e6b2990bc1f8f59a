package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// maxFileBytes of a report that is read: many times what the longest run writes.
const maxFileBytes = 32 << 20

// maxPoints of a curve that is read.
const maxPoints = 100_000

// FileError says why a file is no report.
type FileError struct{ File, Why string }

func (e *FileError) Error() string {
	return fmt.Sprintf("%s is no report of drtmd bench: %s; bench --report and --json write them",
		e.File, e.Why)
}

// Read is a report from a file.
type Read struct {
	File  string
	Bench *Bench // without its Check
	// Verdict on strict serializability; "" if there is none.
	Verdict string
}

// ReadBench reads what WriteJSON wrote. Fields that a later version added are left out.
func ReadBench(file string) (*Read, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err != nil {
		return nil, err
	}
	bench, verdict, why := parseBench(content)
	if why != "" {
		return nil, &FileError{file, why}
	}
	return &Read{File: file, Bench: bench, Verdict: verdict}, nil
}

// parseBench says why it is none, otherwise "".
func parseBench(content []byte) (b *Bench, verdict, why string) {
	if len(content) > maxFileBytes {
		return nil, "", fmt.Sprintf("it is longer than %d MiB", maxFileBytes>>20)
	}
	if len(bytes.TrimSpace(content)) == 0 {
		return nil, "", "it is empty"
	}
	var head struct {
		Schema string `json:"schema"`
	}
	if err := json.Unmarshal(content, &head); err != nil {
		return nil, "", jsonProblem(err)
	}
	if head.Schema != BenchSchema {
		name, version, _ := strings.Cut(BenchSchema, "/")
		switch theirName, theirs, ok := strings.Cut(head.Schema, "/"); {
		case head.Schema == "":
			return nil, "", "it has no schema"
		case ok && theirName == name:
			return nil, "", fmt.Sprintf("its schema has version %.20q, this program reads %s", theirs,
				version)
		}
		return nil, "", fmt.Sprintf("its schema is %.60q, not %s", head.Schema, BenchSchema)
	}
	doc := struct {
		*Bench
		Check *struct {
			Verdict string `json:"verdict"`
		} `json:"check"`
	}{Bench: &Bench{}}
	if err := json.Unmarshal(content, &doc); err != nil {
		return nil, "", jsonProblem(err)
	}
	if doc.Check != nil {
		verdict = doc.Check.Verdict
	}
	return doc.Bench, verdict, implausible(doc.Bench)
}

func jsonProblem(err error) string {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax) && strings.Contains(err.Error(), "unexpected end"):
		return "it is cut off after " + count(int(syntax.Offset), "byte")
	case errors.As(err, &syntax):
		return fmt.Sprintf("it is no JSON at byte %d: %v", syntax.Offset, err)
	case errors.As(err, &kind):
		return fmt.Sprintf("%s is %s", kind.Field, kind.Value)
	}
	return err.Error()
}

// implausible finds what no run writes and what a plot could not show.
func implausible(b *Bench) string {
	switch {
	case b.Workload == "" || b.Protocol == "":
		return "it has no workload or no protocol"
	case b.ElapsedNs < 0 || b.DurationNs < 0 || b.WarmupNs < 0:
		return "a time in it is negative"
	case len(b.Series) > maxPoints || len(b.Quantiles) > maxPoints:
		return fmt.Sprintf("a curve in it has more than %d points", maxPoints)
	}
	for i, x := range b.Series {
		if x.Span < 0 || i > 0 && x.At < b.Series[i-1].At {
			return fmt.Sprintf("point %d of series goes back in time", i)
		}
	}
	for i, q := range b.Quantiles {
		if q.P < 0 || q.P > 1 || i > 0 && (q.P < b.Quantiles[i-1].P || q.Ns < b.Quantiles[i-1].Ns) {
			return fmt.Sprintf("point %d of quantiles is not in order", i)
		}
	}
	return ""
}
