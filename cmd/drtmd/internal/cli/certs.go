package cli

import (
	"errors"
	"fmt"
	"net"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"drtmd/cmd/drtmd/internal/control"
	"drtmd/cmd/drtmd/internal/service"
)

const certsLong = `certs makes certificates for the control plane of a lab: a CA in FOLDER, unless
it has one, and a certificate with its key for --name. The certificate is valid both as a node and
as a client of every node. certs keeps files that exist: run again, it prints until when they are
valid.

FOLDER/ca.key signs for the whole cluster: keep it on one machine. Copy ca.pem, NAME.pem and
NAME.key (mode 0600) to each node, and to each machine from which you run drtmd bench or drtmd
status.

Exit codes:
  0    the certificate was made, or exists and is valid
  1    failed
  2    wrong command line`

const certsExample = `  drtmd certs /etc/drtmd/ca --name lab-1 --host lab-1,10.0.0.1
  drtmd certs /etc/drtmd/ca --name lab-2 --host lab-2,10.0.0.2
  drtmd certs /etc/drtmd/ca --name lab-3 --host lab-3,10.0.0.3
  drtmd certs /etc/drtmd/ca --name operator --host none     a client only
  scp /etc/drtmd/ca/{ca.pem,lab-2.pem,lab-2.key} lab-2:/etc/drtmd/`

// What certificates are made for.
var (
	nodeName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,63}$`)
	hostName = regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9._-]{0,251}[A-Za-z0-9])?$`)
)

func (a *app) certsCommand() *cobra.Command {
	var name string
	var hosts []string
	var days int
	var force bool
	c := &cobra.Command{Use: "certs FOLDER", Short: "make certificates for the control plane of a lab",
		Long: certsLong, Example: certsExample}
	f := c.Flags()
	f.StringVar(&name, "name", "", "`NAME` of the node or client; default: this host's")
	f.StringSliceVar(&hosts, "host", nil, "host `NAMES` and addresses of the node, separated by commas; "+
		"none: a client only; default: this host's, and localhost")
	f.IntVar(&days, "days", int(control.NodeValidity.Hours())/24, "the certificate is valid for `N` days")
	f.BoolVar(&force, "force", false, "replace an existing certificate")
	c.RunE = func(c *cobra.Command, args []string) error {
		switch {
		case len(args) != 1:
			return usagef("see drtmd certs --help", "certs takes one folder, not %d", len(args))
		case days < 1 || days > 3650:
			return usagef("", "--days %d is not in 1..3650", days)
		case name != "" && !nodeName.MatchString(name) || name == "ca":
			return usagef("it becomes the name of a file: 1 to 64 letters, digits, dots, dashes and "+
				"underscores, and not ca", "--name %.80q", name)
		}
		for _, h := range hosts {
			if net.ParseIP(h) == nil && !hostName.MatchString(h) {
				return usagef("give names and addresses with commas between, no blanks",
					"--host: %.80q is neither a name nor an address", h)
			}
		}
		return a.certs(args[0], name, hosts, time.Duration(days)*24*time.Hour, force)
	}
	return c
}

func (a *app) certs(dir, name string, hosts []string, validity time.Duration, force bool) error {
	if err := service.OpenDir(dir); err != nil {
		return err
	}
	newCA, err := control.MakeCA(dir)
	if err != nil {
		return err
	}
	own, err := os.Hostname()
	if err != nil {
		return err
	}
	if name == "" {
		name = own
	}
	switch {
	case len(hosts) == 0:
		hosts = ownHosts(own)
	case slices.Equal(hosts, []string{"none"}):
		hosts = nil
	}
	cert, key, err := control.MakeCert(dir, name, hosts, validity, force)
	switch {
	case errors.Is(err, control.ErrThere):
		return a.keptCert(cert, key, hosts)
	case err != nil:
		return err
	}
	if newCA {
		fmt.Fprintf(a.stdout, "made a CA: %s/%s, and its key %s/%s, which signs for the cluster\n", dir,
			control.CACertFile, dir, control.CAKeyFile)
	}
	valid := strings.Join(hosts, ", ")
	if valid == "" {
		valid = "no host: for clients only"
	}
	fmt.Fprintf(a.stdout, "made %s and %s, valid for %d days, for %s\n", cert, key,
		int(validity.Hours())/24, valid)
	fmt.Fprintf(a.stdout, "copy %s/%s, %s and %s to %s, and give them to drtmd serve as control.ca, "+
		"control.cert and control.key\n", dir, control.CACertFile, cert, key, name)
	return nil
}

// keptCert tells of a certificate that was there; one for other hosts than now asked is an error.
func (a *app) keptCert(cert, key string, hosts []string) error {
	c, err := control.ReadCert(cert)
	if err != nil {
		return err
	}
	has := slices.Clone(c.DNSNames)
	for _, ip := range c.IPAddresses {
		has = append(has, ip.String())
	}
	want := slices.Clone(hosts)
	for i, h := range want {
		if ip := net.ParseIP(h); ip != nil {
			want[i] = ip.String()
		}
	}
	slices.Sort(has)
	slices.Sort(want)
	until := c.NotAfter.Format("2006-01-02")
	switch {
	case time.Now().After(c.NotAfter):
		return fmt.Errorf("%s expired on %s: --force makes a new one", cert, until)
	case !slices.Equal(slices.Compact(has), slices.Compact(want)):
		return fmt.Errorf("%s exists and is valid for %q, not for %q: --force replaces it", cert,
			strings.Join(has, ", "), strings.Join(want, ", "))
	}
	fmt.Fprintf(a.stdout, "kept %s and %s, valid until %s\n", cert, key, until)
	return nil
}

// ownHosts are the names and addresses of this host.
func ownHosts(name string) []string {
	all := []string{name, "localhost", "127.0.0.1", "::1"}
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return all
	}
	for _, x := range addresses {
		if n, ok := x.(*net.IPNet); ok && n.IP.IsGlobalUnicast() {
			all = append(all, n.IP.String())
		}
	}
	return all
}
