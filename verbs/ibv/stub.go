//go:build !cgo || !linux

package ibv

import "drtmd/verbs"

// New returns a provider that reports itself as not built in.
func New() verbs.Provider { return stub{} }

// NewWith is New.
func NewWith(Options) verbs.Provider { return stub{} }

type stub struct{}

func (stub) Name() string { return providerName }

func (stub) Devices() ([]verbs.DeviceInfo, error) { return nil, notBuilt("list devices") }

func (stub) Open(name string) (*verbs.Context, error) { return nil, notBuilt("open") }

func notBuilt(op string) error {
	return &verbs.Error{Op: op, Err: verbs.ErrNotBuilt, Detail: providerName,
		Hint: "build drtmd with CGO_ENABLED=1 and libibverbs-dev installed, or use " +
			"--transport shm"}
}
