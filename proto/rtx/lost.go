package rtx

import (
	"errors"
	"fmt"

	"drtmd/verbs/fiber"
)

// Loss of a memory node, when there are several. Nothing is replicated (section 3), so what it had is gone, or comes back
// with it. Whatever needs it fails with a LostError; the rest goes on: transactions whose objects, blocks and log are on
// other nodes, new blocks and objects of other nodes, and repairs of logs that name other nodes only. Nothing of a commit
// is ever left out because a node does not answer: an object that a transaction with a part there has locked stays
// locked, and whoever meets it has a LostError. A client does not know whether the node is gone or its way to it, so a node
// that is lost for one client may work for others.

// ErrNodeLost is what a LostError is.
var ErrNodeLost = errors.New("memory node lost")

// LostError says which memory node an operation needed that does not answer.
type LostError struct {
	Node  int // from 0
	Nodes int
	Err   error // of the transport
}

func (e *LostError) Error() string {
	return fmt.Sprintf("memory node %d of %d is lost: %v; what is on the others goes on", e.Node+1, e.Nodes, e.Err)
}

// Is makes errors.Is find ErrNodeLost.
func (e *LostError) Is(target error) bool { return target == ErrNodeLost }

func (e *LostError) Unwrap() error { return e.Err }

// Lost reports whether a memory node has not answered this client.
func (c *Client) Lost(node int) bool { return c.lost>>node&1 == 1 }

// lostAt reports whether the node of a place is lost.
func (c *Client) lostAt(place int) bool { return c.lost != 0 && c.Lost(PlaceNode(place)) }

// aims notes which node the next operation of the batch goes to.
func (c *Client) aims(place int) {
	c.aimed = append(c.aimed[:c.b.Len()], uint8(PlaceNode(place)))
}

// failed is what becomes of an error of the batch, which was awaited. With several memory nodes it names the first that
// does not answer. In the middle of a commit of its own, the client is broken: its outcome may be unknown. Otherwise it
// goes on, since what was under way was reads, and CASes of repairs, which may come late or never.
func (c *Client) failed(f *fiber.Fiber, err error) error {
	if !c.scattered() || f.Err() != nil {
		return c.fail(err)
	}
	for i := range c.b.Len() {
		if c.b.Err(i) != nil {
			node := int(c.aimed[i])
			c.lost |= 1 << node
			err = &LostError{Node: node, Nodes: len(c.nodes), Err: err}
			break
		}
	}
	if c.committing {
		return c.fail(err)
	}
	return err
}
