// Package transport maps names of the command line to providers. No other package of the command line
// names a provider.
package transport

import (
	"fmt"
	"strings"

	"drtmd/verbs"
	"drtmd/verbs/ibv"
	"drtmd/verbs/shm"
)

// Default is the embedded default: it needs no hardware, no privilege and no set-up.
const Default = "shm"

// Options of the providers.
type Options struct {
	// RunDir is where processes on the shm transport meet; "" is the user's own default.
	RunDir string
	// KeepDir is where ibv keeps memory that outlives its process; "": it keeps none.
	KeepDir string
}

// Names lists the transports, the default first.
func Names() []string { return []string{"shm", "ibv"} }

// UnknownError names a transport that does not exist.
type UnknownError struct{ Name string }

func (e *UnknownError) Error() string {
	return fmt.Sprintf("unknown transport %q; available: %s; ibv is RDMA "+
		"hardware and Soft-RoCE", e.Name, strings.Join(Names(), ", "))
}

// RunDir is a run directory of the shm transport that this user has beside the default one.
func RunDir(name string) string { return shm.RunDir(name) }

// New makes a provider by name.
func New(name string, o Options) (verbs.Provider, error) {
	switch name {
	case "shm":
		return shm.New(shm.Options{Dir: o.RunDir}), nil
	case "ibv":
		return ibv.NewWith(ibv.Options{KeepDir: o.KeepDir}), nil
	}
	return nil, &UnknownError{Name: name}
}
