package cli

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"drtmd/cmd/drtmd/internal/control"
	"drtmd/cmd/drtmd/internal/report"
	"drtmd/cmd/drtmd/internal/service"
)

// clientFlags are those of commands that ask a daemon.
type clientFlags struct{ address, ca, cert, key string }

// defaultControl is where a node listens if nothing else is said.
const defaultControl = "127.0.0.1:7440"

func (p *clientFlags) register(f *pflag.FlagSet, name string) {
	f.StringVar(&p.address, name, "", "`ADDR` of a node's control plane, HOST:PORT or unix:PATH; "+
		"default: $DRTMD_ADDRESS, else the cluster of drtmd up, else "+defaultControl)
	f.StringVar(&p.ca, "ca", os.Getenv("DRTMD_CONTROL_CA"), "certificate of the cluster's CA, "+
		"`FILE`; also $DRTMD_CONTROL_CA")
	f.StringVar(&p.cert, "cert", os.Getenv("DRTMD_CONTROL_CERT"), "own certificate, `FILE`; also "+
		"$DRTMD_CONTROL_CERT")
	f.StringVar(&p.key, "key", os.Getenv("DRTMD_CONTROL_KEY"), "its key, `FILE`; also "+
		"$DRTMD_CONTROL_KEY")
}

// resolve finds the address.
func (p *clientFlags) resolve() string {
	if p.address != "" {
		return p.address
	}
	if a := os.Getenv("DRTMD_ADDRESS"); a != "" {
		return a
	}
	if b, err := os.ReadFile(filepath.Join(upDir(""), addressFile)); err == nil {
		return strings.TrimSpace(string(b))
	}
	return defaultControl
}

// dial makes a client.
func (p *clientFlags) dial() (*control.Client, error) { return p.dialAt(p.resolve()) }

// dialAt makes a client of another daemon of the cluster.
func (p *clientFlags) dialAt(address string) (*control.Client, error) {
	sec, err := control.LoadSecurity(p.ca, p.cert, p.key)
	if err != nil {
		return nil, usagef("", "%v", err)
	}
	c, err := control.Dial(address, control.DialOptions{Security: sec,
		Caller: func() control.Caller { return control.Caller{Build: report.ThisBuild().String()} }})
	if err != nil {
		return nil, usagef("", "%v", err)
	}
	return c, nil
}

// upDir is the folder of a cluster that drtmd up started.
func upDir(asked string) string {
	if asked != "" {
		return asked
	}
	return filepath.Join(service.RuntimeDir(""), "up")
}

// addressFile has the control address of the first node, in the folder of drtmd up.
const addressFile = "address"
