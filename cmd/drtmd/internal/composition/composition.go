// Package composition lists the protocols and workloads of a drtmd: those of this module and those that a
// program adds. Commands, configuration and daemons receive the list; none of them names a protocol or a
// workload.
//
// A Composition is immutable, and may be used by any goroutine.
package composition

import (
	"fmt"
	"slices"

	"drtmd/cmd/drtmd/internal/workloads"
	"drtmd/internal/invariant"
	"drtmd/proto/node"
	"drtmd/proto/option"
	"drtmd/proto/workload"
)

// Composition is a list of protocols and one of workloads; the first of each is the default.
type Composition struct {
	Protocols []node.Protocol
	Workloads []workload.Spec
	// OfProtocols and OfWorkloads are all their options.
	OfProtocols, OfWorkloads []option.Shared
	own                      []node.Protocol
}

// BuiltIn is what this module has.
func BuiltIn() *Composition {
	c, err := New(nil, nil)
	invariant.Assertf(err == nil, "%v", err)
	return c
}

// New is what this module has, and more. It is an error if two of a kind have one name, or if options
// of one name are of different types, or one a protocol's and one a workload's.
func New(protocols []node.Protocol, specs []workload.Spec) (*Composition, error) {
	c := &Composition{Protocols: node.Protocols(protocols...), own: protocols,
		Workloads: slices.Concat(workloads.Specs(), specs)}
	var ofProtocols, ofWorkloads []option.Owner
	for i, p := range c.Protocols {
		if p.Name == "" || p.New == nil {
			return nil, fmt.Errorf("protocol %q: it needs a Name and New", p.Name)
		}
		if slices.ContainsFunc(c.Protocols[:i], func(q node.Protocol) bool { return q.Name == p.Name }) {
			return nil, fmt.Errorf("there are two protocols %s: give one another name", p.Name)
		}
		ofProtocols = append(ofProtocols, option.Owner{Name: p.Name, Options: p.Options})
	}
	for i, w := range c.Workloads {
		if w.Name == "" || w.New == nil {
			return nil, fmt.Errorf("workload %q: it needs a Name and New", w.Name)
		}
		if slices.ContainsFunc(c.Workloads[:i], func(q workload.Spec) bool { return q.Name == w.Name }) {
			return nil, fmt.Errorf("there are two workloads %s: give one another name", w.Name)
		}
		if err := w.CheckFunctions(); err != nil {
			return nil, err
		}
		ofWorkloads = append(ofWorkloads, option.Owner{Name: w.Name, Options: w.Options})
	}
	var err error
	if c.OfProtocols, err = option.Union(ofProtocols); err != nil {
		return nil, err
	}
	if c.OfWorkloads, err = option.Union(ofWorkloads); err != nil {
		return nil, err
	}
	for _, o := range c.OfWorkloads {
		i := slices.IndexFunc(c.OfProtocols, func(p option.Shared) bool { return p.Name == o.Name })
		if i >= 0 {
			return nil, fmt.Errorf("option %s is one of workload %s and one of protocol %s: give one another "+
				"name", o.Name, o.Owners[0], c.OfProtocols[i].Owners[0])
		}
	}
	return c, nil
}

// Own are the protocols that New was given.
func (c *Composition) Own() []node.Protocol { return c.own }

// Protocol finds a protocol by name, or fails with a *node.UnknownError.
func (c *Composition) Protocol(name string) (node.Protocol, error) {
	return node.FindProtocol(name, c.own...)
}

// Workload finds a workload by name, or fails with a *workload.UnknownError.
func (c *Composition) Workload(name string) (*workload.Spec, error) {
	return workload.Find(c.Workloads, name)
}

// DefaultProtocol is the one that runs where none is named.
func (c *Composition) DefaultProtocol() node.Protocol { return c.Protocols[0] }

// DefaultWorkload is the one that runs where none is named.
func (c *Composition) DefaultWorkload() workload.Spec { return c.Workloads[0] }
