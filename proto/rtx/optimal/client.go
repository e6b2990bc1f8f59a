package optimal

import (
	"drtmd/proto/rtx/inplace"
	"drtmd/verbs/fiber"
)

// Client is an owner of locks.
type Client struct {
	inplace.Client
	tx Tx

	blocks     []uint64 // of records, free: data pointers
	nextBlock  int      // the one that was given last
	blockClass int
}

// Attach checks the memory and makes a client.
func Attach(f *fiber.Fiber, cfg inplace.Config) (*Client, error) {
	// Each object has room for what was read, and for what it becomes.
	base, err := Kind.Attach(f, cfg, inplace.Objects*2*nodeBytes)
	if err != nil {
		return nil, err
	}
	c := &Client{Client: base}
	c.tx.set = make([]inplace.Object, 0, inplace.Objects)
	return c, nil
}

// Payload is how many bytes of a class's objects are the program's.
func (c *Client) Payload(class int) int { return c.ClassBytes(class) - 2*edgeBytes }
