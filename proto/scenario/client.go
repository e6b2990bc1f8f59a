package scenario

import (
	"drtmd/proto"
	"drtmd/proto/history"
	"drtmd/proto/workload"
	"drtmd/verbs/fiber"
)

// client is a workload's client that remembers the values which it has written, so that what a
// crash kept from being written back can be told.
type client struct {
	workload.Client
	counts  workload.Counts
	program program
	ships   shippable
	open    bool   // a transaction was drawn and is not done
	shipped bool   // of the one that was drawn NICs may execute a function: what it does the client hears in the end
	dones   int    // transactions that are done
	told    func() // called when one is; may be nil
}

// values are what transactions wrote or tried to, by digest.
type values map[history.Digest][]byte

// Next draws a transaction.
func (c *client) Next() (*proto.Decl, proto.Program) {
	d, p := c.Client.Next()
	c.open, c.shipped, c.program.inner, c.program.piece = true, false, p, 0
	dep, depends := p.(proto.Dependent)
	switch chain, ok := p.(proto.Chain); {
	case ok && depends:
		return d, &dependentChain{inPieces{&c.program, chain}, dep}
	case ok:
		return d, &inPieces{&c.program, chain}
	case depends:
		return d, &dependent{&c.program, dep}
	}
	if call, ok := p.(proto.Shippable); ok {
		c.ships, c.shipped = shippable{&c.program, call}, true
		return d, &c.ships
	}
	return d, &c.program
}

// Done is told the outcome.
func (c *client) Done(o proto.Outcome) {
	c.open = false
	c.dones++
	c.Client.Done(o)
	if c.told != nil {
		c.told()
	}
}

// program notes the values that it writes.
type program struct {
	inner  proto.Program
	values values
	sizes  []int // of values, by table from 1; nil: of what is written in part nothing is noted
	piece  int   // that runs
}

// sizesOf are those of values, for programs of engines whose writes a crash may leave behind. Those on chips that are a
// model leave none, and their transactions access no more of a record than their programs ask for.
func (c *cluster) sizesOf() (all []int) {
	if c.protocol.Chips != nil {
		return nil
	}
	for _, t := range c.load.Tables() {
		all = append(all, t.ValueBytes)
	}
	return all
}

func (p *program) Execute(tx proto.Txn) error { return p.inner.Execute(p.noting(tx)) }

func (p *program) noting(tx proto.Txn) noting { return noting{tx, p.values, p.sizes} }

// shippable is a program for which a function may stand. What that writes is not noted.
type shippable struct {
	*program
	call proto.Shippable
}

func (s *shippable) Call(dst []byte) (uint16, []byte) { return s.call.Call(dst) }
func (s *shippable) Return(result []byte) error       { return s.call.Return(result) }
func (s *shippable) Result(dst []byte) []byte         { return s.call.Result(dst) }

// dependent is a program with a plan.
type dependent struct {
	*program
	inner proto.Dependent
}

func (d *dependent) Plan(f *fiber.Fiber, peek proto.Peeker, decl *proto.Decl) error {
	return d.inner.Plan(f, peek, decl)
}

// inPieces is a program in pieces.
type inPieces struct {
	*program
	inner proto.Chain
}

func (c *inPieces) Pieces() int { return c.inner.Pieces() }

func (c *inPieces) PlanPiece(f *fiber.Fiber, peek proto.Peeker, piece int, d *proto.Decl) error {
	c.piece = piece
	return c.inner.PlanPiece(f, peek, piece, d)
}

func (c *inPieces) ExecutePiece(tx proto.Txn, piece int) error {
	return c.inner.ExecutePiece(c.noting(tx), piece)
}

func (c *inPieces) AppendPieces(b []byte, from int) []byte { return c.inner.AppendPieces(b, from) }

// dependentChain has a plan if it runs as a whole.
type dependentChain struct {
	inPieces
	whole proto.Dependent
}

func (d *dependentChain) Plan(f *fiber.Fiber, peek proto.Peeker, decl *proto.Decl) error {
	return d.whole.Plan(f, peek, decl)
}

// noting is a transaction whose values are noted.
type noting struct {
	proto.Txn
	values values
	sizes  []int // see program
}

func (n noting) note(value []byte) {
	d := history.DigestOf(value)
	if _, ok := n.values[d]; !ok {
		n.values[d] = append([]byte(nil), value...)
	}
}

func (n noting) Write(t proto.TableID, k proto.Key, value []byte) error {
	n.note(value)
	return n.Txn.Write(t, k, value)
}

func (n noting) AddTo(t proto.TableID, k proto.Key, delta int64) error {
	return proto.Add(n.Txn, t, k, delta)
}

func (n noting) Insert(t proto.TableID, k proto.Key, value []byte) error {
	n.note(value)
	return n.Txn.Insert(t, k, value)
}

// ReadAt implements proto.Fielder.
func (n noting) ReadAt(t proto.TableID, k proto.Key, offset int, dst []byte) error {
	if f, ok := n.Txn.(proto.Fielder); ok {
		return f.ReadAt(t, k, offset, dst)
	}
	return proto.ReadAt(n.Txn, t, k, offset, dst, make([]byte, n.sizes[t-1]))
}

// WriteAt implements proto.Fielder. What is noted is the whole value that comes of it.
func (n noting) WriteAt(t proto.TableID, k proto.Key, offset int, value []byte) error {
	if n.sizes == nil {
		return n.Txn.(proto.Fielder).WriteAt(t, k, offset, value)
	}
	row := make([]byte, n.sizes[t-1])
	if err := proto.WriteAt(n.Txn, t, k, offset, value, row); err != nil {
		return err
	}
	if err := n.Read(t, k, row); err != nil {
		return err
	}
	n.note(row)
	return nil
}
