package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"drtmd/cmd/drtmd/internal/control"
	"drtmd/cmd/drtmd/internal/report"
	"drtmd/cmd/drtmd/internal/status"
)

// clientFlags are those of commands that ask a daemon.
type clientFlags struct{ address, ca, cert, key string }

// clientFiles are the flags that name files of these.
var clientFiles = []string{"ca", "cert", "key"}

// defaultControl is the default control address of a node.
const defaultControl = "127.0.0.1:7440"

func (p *clientFlags) register(f *pflag.FlagSet, name string) {
	f.StringVar(&p.address, name, "", "control address `ADDR` of a node, HOST:PORT or unix:PATH; several, "+
		"with commas, are tried in order; up or up:NAME: the nodes of drtmd up; default: $DRTMD_ADDRESS, "+
		"else the nodes of drtmd up, else "+defaultControl)
	f.StringVar(&p.ca, "ca", os.Getenv("DRTMD_CONTROL_CA"), "`FILE` with the certificate of the "+
		"cluster's CA (PEM); default: $DRTMD_CONTROL_CA")
	f.StringVar(&p.cert, "cert", os.Getenv("DRTMD_CONTROL_CERT"), "`FILE` with this client's "+
		"certificate (PEM); default: $DRTMD_CONTROL_CERT")
	f.StringVar(&p.key, "key", os.Getenv("DRTMD_CONTROL_KEY"), "`FILE` with the key of --cert (PEM); "+
		"default: $DRTMD_CONTROL_KEY")
}

// upAddress is the address that stands for the cluster of drtmd up; upPrefix begins one that names it.
const (
	upAddress = "up"
	upPrefix  = "up:"
)

// resolve finds the addresses to be tried. up is the folder of drtmd up that they are of; "": of none.
func (p *clientFlags) resolve() (list []string, up string, err error) {
	asked := p.address
	if asked == "" || asked == upAddress {
		if a := os.Getenv("DRTMD_ADDRESS"); a != "" {
			asked = a
		}
	}
	name, named := strings.CutPrefix(asked, upPrefix)
	switch {
	case !named && asked != "" && asked != upAddress:
		return strings.Split(asked, ","), "", nil
	case !named:
		name = ""
	}
	dir := upDir(name)
	st, err := readUpState(dir)
	switch {
	case err != nil:
		return nil, "", err
	case st != nil:
		return st.addresses(), dir, nil
	case asked != "":
		return nil, "", fmt.Errorf("no cluster of drtmd up runs in %s; drtmd up starts one", dir)
	}
	return []string{defaultControl}, "", nil
}

// tryTimeout bounds the question whether one of several nodes answers.
const tryTimeout = 2 * time.Second

// dial makes a client of the cluster. Of several addresses it takes the first whose node serves, else
// the first that answers.
func (p *clientFlags) dial(ctx context.Context) (*control.Client, error) {
	list, up, err := p.resolve()
	if err != nil {
		return nil, err
	}
	if len(list) == 1 {
		return p.dialAt(list[0])
	}
	var answers *control.Client
	var errs []error
	for _, address := range list {
		c, err := p.dialAt(address)
		if err != nil {
			return nil, errors.Join(err, closeIfThere(answers))
		}
		serves, err := asksAndServes(ctx, c)
		switch {
		case serves:
			return c, closeIfThere(answers)
		case err == nil && answers == nil:
			answers = c
			continue
		}
		errs = append(errs, err)
		if err := c.Close(); err != nil {
			return nil, errors.Join(err, closeIfThere(answers))
		}
	}
	if answers == nil && ctx.Err() == nil {
		return nil, noneAnswers(list, up, errs)
	}
	return answers, ctx.Err()
}

func closeIfThere(c *control.Client) error {
	if c == nil {
		return nil
	}
	return c.Close()
}

// asksAndServes reports whether a node serves; an error is that it does not answer.
func asksAndServes(ctx context.Context, c *control.Client) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, tryTimeout)
	defer cancel()
	st, err := c.Status(ctx, true)
	if err != nil || len(st.Nodes) == 0 {
		return false, err
	}
	phase := st.Nodes[0].Phase
	return phase == status.Ready || phase == status.Running, nil
}

// noneAnswers says why no node could be asked, each reason once.
func noneAnswers(list []string, up string, errs []error) error {
	var reasons []string
	said := map[string]int{}
	for i, err := range errs {
		text, address := err.Error(), list[i]
		var unreached *control.ConnectError
		if errors.As(err, &unreached) {
			address, text = unreached.Address, strings.TrimPrefix(text, unreached.Address+": ")
			if up != "" { // how to start one follows
				text = unreached.Text
			}
		}
		if at, ok := said[text]; ok {
			reasons[at] = address + ", " + reasons[at]
			continue
		}
		said[text] = len(reasons)
		reasons = append(reasons, address+": "+text)
	}
	text := fmt.Sprintf("none of %d nodes answers: %s", len(list), strings.Join(reasons, "; "))
	if up != "" {
		text += fmt.Sprintf("; these are of drtmd up in %s: drtmd up --restart N starts one again, drtmd "+
			"down ends the cluster", up)
	}
	return errors.New(text)
}

// dialAt makes a client of another daemon of the cluster.
func (p *clientFlags) dialAt(address string) (*control.Client, error) {
	sec, err := control.LoadSecurity(p.ca, p.cert, p.key)
	if err != nil {
		return nil, usagef("", "%v", err)
	}
	c, err := control.Dial(address, control.DialOptions{Security: sec, Advice: restartAdvice(address),
		Caller: func() control.Caller { return control.Caller{Build: report.ThisBuild().String()} }})
	if err != nil {
		return nil, usagef("", "%v", err)
	}
	return c, nil
}
