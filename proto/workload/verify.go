package workload

import (
	"bytes"
	"fmt"

	"drtmd/proto"
)

// Tally is the result of a workload's check of its tables at rest, on some or all of its nodes.
type Tally struct {
	Initial Quantities `json:"initial"`
	Final   Quantities `json:"final"`
	// Records is how many records the check has looked for, absent ones included.
	Records uint64 `json:"records"`
	// Wrong names content that no transaction can have left; "": there is none.
	Wrong string `json:"wrong,omitempty"`
}

// Plus is the result for the nodes of both.
func (t Tally) Plus(o Tally) Tally {
	if t.Wrong == "" {
		t.Wrong = o.Wrong
	}
	t.Initial, t.Final, t.Records = t.Initial.Plus(o.Initial), t.Final.Plus(o.Final), t.Records+o.Records
	return t
}

// Contents are what a node holds at rest.
type Contents interface {
	// Read fails with proto.ErrNotFound for an absent record.
	Read(t proto.TableID, k proto.Key, dst []byte) error
	// Each calls visit with every record of a table, in any order. row is valid during the call.
	Each(t proto.TableID, visit func(k proto.Key, row []byte))
	// Scan calls visit with every record of an ordered table, as a scan finds it: in ascending order, until
	// visit returns false.
	Scan(t proto.TableID, visit func(k proto.Key, row []byte) bool) error
}

// Verify has a workload check what a node holds, after the last transaction has ended. It scans ordered tables,
// and compares the result with look-ups of all their records.
func Verify(w Workload, node proto.NodeID, c Contents) (t Tally) {
	counted := &counting{Contents: c}
	var err error
	t.Initial, t.Final, err = w.Check(node, counted)
	for _, s := range w.Tables() {
		if err == nil && s.Ordered {
			err = compareScan(&s, counted)
		}
	}
	if err != nil {
		t.Wrong = fmt.Sprintf("node %d: %v", node, err)
	}
	t.Records = counted.records
	return t
}

// counting counts the records that are looked for.
type counting struct {
	Contents
	records uint64
}

func (c *counting) Read(t proto.TableID, k proto.Key, dst []byte) error {
	c.records++
	return c.Contents.Read(t, k, dst)
}

func (c *counting) Each(t proto.TableID, visit func(k proto.Key, row []byte)) {
	c.Contents.Each(t, func(k proto.Key, row []byte) {
		c.records++
		visit(k, row)
	})
}

// compareScan scans an ordered table: it gives all records, each once and in order, as look-ups find them.
func compareScan(s *proto.TableSpec, c *counting) error {
	var held, scanned int
	c.Contents.Each(s.ID, func(proto.Key, []byte) { held++ })
	looked := make([]byte, s.ValueBytes)
	var last proto.Key
	var wrong error
	err := c.Scan(s.ID, func(k proto.Key, row []byte) bool {
		switch err := c.Read(s.ID, k, looked); {
		case scanned > 0 && k <= last:
			wrong = fmt.Errorf("key %#x comes after key %#x", k, last)
		case err != nil:
			wrong = fmt.Errorf("a look-up of key %#x, which it gives: %w", k, err)
		case !bytes.Equal(row, looked):
			wrong = fmt.Errorf("a look-up of key %#x finds another value", k)
		}
		scanned, last = scanned+1, k
		return wrong == nil
	})
	switch {
	case err != nil:
		wrong = err
	case wrong == nil && scanned != held:
		wrong = fmt.Errorf("it gives %d records, and the table has %d", scanned, held)
	}
	if wrong != nil {
		return fmt.Errorf("scan of table %s: %w", s.Name, wrong)
	}
	return nil
}
