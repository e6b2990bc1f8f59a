package optimal

import (
	"drtmd/proto/rtx/inplace"
	"drtmd/verbs/fiber"
)

// Parts are parts of rTX that the baseline may have, for the factor analysis (section 6.3). The zero value has none.
type Parts struct {
	// Optimistic: objects are read without their locks. The commit locks what is updated, and validates what was read.
	Optimistic bool
	// Idempotent: the commit changes the version in front of an object by CAS, not by WRITE.
	Idempotent bool
}

// Client is an owner of locks.
type Client struct {
	inplace.Client
	parts Parts
	tx    Tx
}

// Attach checks the memory and makes a client.
func Attach(f *fiber.Fiber, cfg inplace.Config, parts Parts) (*Client, error) {
	// Each object has room for what was read, for what it becomes, and for what the validation reads.
	base, err := Kind.Attach(f, cfg, inplace.Objects*(2*nodeBytes+checkBytes))
	if err != nil {
		return nil, err
	}
	c := &Client{Client: base, parts: parts}
	c.tx.set = make([]inplace.Object, 0, inplace.Objects)
	return c, nil
}

// Payload is how many bytes of a class's objects are the program's.
func (c *Client) Payload(class int) int { return c.ClassBytes(class) - 2*edgeBytes }
