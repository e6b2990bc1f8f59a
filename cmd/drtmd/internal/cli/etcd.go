package cli

import (
	"crypto/tls"
	"os"

	"github.com/spf13/cobra"

	"drtmd/cmd/drtmd/internal/control"
	"drtmd/proto/member/etcdmember"
)

// etcdName is the hidden command that is the process of an embedded etcd.
const etcdName = "embedded-etcd"

// etcdCommandLine is for daemon.Options. The program is the one that runs, also when its file was
// replaced.
func etcdCommandLine() []string { return []string{"/proc/self/exe", etcdName} }

func (a *app) etcdCommand() *cobra.Command {
	c := &cobra.Command{Use: etcdName, Short: "the etcd of drtmd serve, which starts it", Hidden: true,
		Long: "embedded-etcd is started by drtmd serve, talks to it over standard input and output, and\n" +
			"ends with it.", Args: noArgs}
	c.RunE = func(c *cobra.Command, _ []string) error {
		return etcdmember.RunChild(c.Context(), os.Stdin, a.stdout, certificates)
	}
	return c
}

// certificates implements etcdmember.Certificates.
func certificates(ca, cert, key string) (*tls.Config, func() error, error) {
	sec, err := control.LoadSecurity(ca, cert, key)
	if err != nil || sec == nil {
		return nil, func() error { return nil }, err
	}
	return sec.ServerTLS(), sec.Reload, nil
}
