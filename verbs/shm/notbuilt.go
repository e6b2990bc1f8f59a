//go:build !(linux && amd64)

package shm

import (
	"io"

	"drtmd/verbs"
)

// Options of New.
type Options struct{ Dir string }

// Provider stands in for the provider where it is not built.
type Provider struct{}

var _ verbs.Provider = (*Provider)(nil)

// New makes a provider without devices.
func New(Options) *Provider { return &Provider{} }

// RunDir is none.
func RunDir(string) string { return "" }

// Name is "shm".
func (*Provider) Name() string { return "shm" }

// Devices lists none.
func (*Provider) Devices() ([]verbs.DeviceInfo, error) { return nil, nil }

// Open reports verbs.ErrNotBuilt.
func (*Provider) Open(name string) (*verbs.Context, error) {
	return nil, &verbs.Error{Op: "ibv_open_device", Device: name, Err: verbs.ErrNotBuilt,
		Hint: "the shm transport needs linux on amd64"}
}

// Kept lists none.
func (*Provider) Kept() ([]string, error) { return nil, nil }

// RemoveKept reports verbs.ErrNotBuilt.
func (*Provider) RemoveKept(string) error { return verbs.ErrNotBuilt }

// CopyKept reports verbs.ErrNotBuilt.
func (*Provider) CopyKept(string, io.Writer) error { return verbs.ErrNotBuilt }

// PutKept reports verbs.ErrNotBuilt.
func (*Provider) PutKept(string, int64, io.Reader) error { return verbs.ErrNotBuilt }
