package membership

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.uber.org/zap"

	"drtmd/cmd/drtmd/internal/control"
	pb "drtmd/cmd/drtmd/internal/control/controlpb"
	"drtmd/cmd/drtmd/internal/pace"
	"drtmd/cmd/drtmd/internal/status"
	"drtmd/proto/member"
	"drtmd/proto/member/etcdmember"
)

// longestAsk is between two questions to the members of cluster.join.
const longestAsk = 2 * time.Second

// embeddedEtcd is the registry of a node that embeds it.
type embeddedEtcd interface {
	URLs() []string
	// Failed gives why it has ended by itself; closed by Close.
	Failed() <-chan error
	Close() error
}

// Open finds the registry: the etcd that is configured, one that this node embeds, or that of a cluster
// to join. end is called if an embedded one ends by itself. Close it in any case.
func (m *Membership) Open(ctx context.Context, end func(error)) error {
	c := &m.o.Config.Cluster
	name, id := c.Name, ""
	var urls []string
	switch {
	case len(c.Etcd) > 0:
		urls = c.Etcd
	case len(c.Join) == 0:
		s, err := m.startEtcd(ctx)
		if err != nil {
			return err
		}
		m.mu.Lock()
		m.etcd = s
		m.mu.Unlock()
		go func() {
			if err, ok := <-s.Failed(); ok && err != nil {
				end(err)
			}
		}()
		urls = s.URLs()
	default:
		a, err := m.askAdmission(ctx)
		if err != nil {
			return err
		}
		urls, id = a.Etcd, a.Cluster
		name, _, _ = strings.Cut(id, "/")
		id = strings.TrimPrefix(id, name+"/")
		m.mu.Lock()
		m.lease = time.Duration(a.LeaseS * float64(time.Second))
		m.mu.Unlock()
	}
	open := etcdmember.Config{Endpoints: urls, Cluster: name, ID: id, Lease: m.Lease(),
		Clock: m.o.Clock, Log: m.o.Log.Named("membership")}
	if open.TLS = m.etcdTLS(urls); open.TLS != nil {
		open.CurrentTLS = m.o.Security.ClientTLS // follows Reload
	}
	r, err := etcdmember.Open(open)
	if err != nil {
		return err
	}
	m.mu.Lock()
	m.registry, m.etcdURLs = r, urls
	m.mu.Unlock()
	return nil
}

// Close ends what Open has begun, the embedded etcd last.
func (m *Membership) Close() error {
	m.mu.Lock()
	r, s := m.registry, m.etcd
	m.mu.Unlock()
	var errs []error
	if r != nil {
		errs = append(errs, r.Close())
	}
	if s != nil {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}

// etcdTLS is for https endpoints; plain ones ignore it.
func (m *Membership) etcdTLS(urls []string) *tls.Config {
	if len(urls) > 0 && !strings.HasPrefix(urls[0], "https") {
		return nil
	}
	return m.o.Security.ClientTLS()
}

// askAdmission asks the members named in cluster.join where etcd is, until one answers.
func (m *Membership) askAdmission(ctx context.Context) (*pb.AdmitReply, error) {
	join := m.o.Config.Cluster.Join
	m.o.Board.Set(status.Joining, "asks "+strings.Join(join, ", "))
	ctx, cancel := context.WithTimeout(ctx, joinTimeout)
	defer cancel()
	var last []string
	first, wait := time.Now(), retryWait
	warn := pace.Pace{Least: retryWait, Most: longestWarning}
	for {
		last = last[:0]
		for _, address := range join {
			a, err := m.admission(ctx, address)
			var remote *control.RemoteError
			switch {
			case err == nil:
				return a, nil
			case errors.Is(err, member.ErrBuild), errors.As(err, &remote) && !errors.Is(err,
				member.ErrUnreachable):
				return nil, fmt.Errorf("%s refuses this node: %w", address, err)
			}
			last = append(last, err.Error())
		}
		m.o.Board.Set(status.Joining, strings.Join(last, "; "))
		if warn.Due(time.Now()) {
			m.o.Log.Warn("no member of cluster.join answers yet: is one running at these addresses?",
				zap.Strings("tried", last), zap.Duration("tries_again_in", wait),
				zap.Duration("gives_up_in", (joinTimeout-time.Since(first)).Round(time.Second)))
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("no member of cluster.join has answered within %v: %s", joinTimeout,
				strings.Join(last, "; "))
		case <-m.givenUp:
			return nil, errors.New("stopped before it joined")
		case <-time.After(wait):
		}
		wait = min(2*wait, longestAsk)
	}
}

func (m *Membership) admission(ctx context.Context, address string) (*pb.AdmitReply, error) {
	c, err := control.Dial(address, control.DialOptions{Security: m.o.Security, Caller: m.Caller})
	if err != nil {
		return nil, err
	}
	a, err := c.Admit(ctx, &pb.AdmitRequest{Name: m.o.Config.Node.Hostname(),
		Transport: m.o.Config.Transport.Provider})
	return a, errors.Join(err, c.Close())
}

// startEtcd starts it in a process of its own, or in this one.
func (m *Membership) startEtcd(ctx context.Context) (embeddedEtcd, error) {
	m.o.Board.Set(status.Joining, "starts the embedded etcd")
	c := &m.o.Config.Control
	cfg := etcdmember.ServerConfig{Dir: m.dir(), Listen: m.o.Config.Cluster.EtcdListen, CA: c.CA,
		Cert: c.Cert, Key: c.Key, Log: m.o.Log.Named("etcd")}
	command := m.o.EtcdCommand
	if len(command) == 0 {
		cfg.TLS = m.o.Security.ServerTLS()
		return etcdmember.Start(ctx, cfg)
	}
	return etcdmember.Spawn(ctx, etcdmember.SpawnConfig{ServerConfig: cfg, Program: command[0],
		Args: command[1:], Disk: m.heardOfDisk})
}

// heardOfDisk notes that etcd's disk has become slow, or is fast again.
func (m *Membership) heardOfDisk(now etcdmember.Disk) {
	m.mu.Lock()
	m.slowDisk = ""
	if now.Slow {
		m.slowDisk = now.String()
	}
	m.mu.Unlock()
	if now.Slow {
		m.o.Board.Event(status.Warn, now.String())
	} else {
		m.o.Board.Event(status.Info, fmt.Sprintf("the disk of %s is fast again", now.Dir))
	}
}

// ReloadEtcd has an etcd in a process of its own read the certificates again; one in this process
// follows by itself.
func (m *Membership) ReloadEtcd() error {
	m.mu.Lock()
	p, ok := m.etcd.(*etcdmember.Process)
	m.mu.Unlock()
	if !ok {
		return nil
	}
	return p.Reload()
}
