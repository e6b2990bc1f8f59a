package daemon

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"drtmd/cmd/drtmd/internal/control"
	pb "drtmd/cmd/drtmd/internal/control/controlpb"
	"drtmd/cmd/drtmd/internal/status"
	"drtmd/internal/durable"
	"drtmd/proto/member"
	"drtmd/proto/member/etcdmember"
)

// identity is what a node knows of its former lives; a file in the state folder.
type identity struct {
	Cluster     string             `json:"cluster"` // member.State.Cluster
	Node        int                `json:"node"`
	Incarnation member.Incarnation `json:"incarnation"`
	// Folder is the inode of the state folder: a copy of it is not the node's that it was made of.
	Folder uint64 `json:"folder"`
}

const identityFile = "identity.json"

func (d *Daemon) readIdentity() (identity, error) {
	var id identity
	name := filepath.Join(d.stateDir, identityFile)
	b, err := os.ReadFile(name)
	if errors.Is(err, os.ErrNotExist) {
		return identity{Node: member.AnyNode}, nil
	}
	if err == nil {
		err = json.Unmarshal(b, &id)
	}
	if err != nil {
		return id, fmt.Errorf("%s, which says who this node was, cannot be read: %w; remove it to join as "+
			"a new node", name, err)
	}
	folder, err := inode(d.stateDir)
	if folder != id.Folder {
		return identity{Node: member.AnyNode, Folder: id.Folder}, err
	}
	return id, err
}

// copied reports that the state folder is a copy of that of another node, who may live.
func (id *identity) copied() bool { return id.Node == member.AnyNode && id.Folder != 0 }

// inode tells a folder from its copies.
func inode(dir string) (uint64, error) {
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return 0, fmt.Errorf("%s: %w", dir, err)
	}
	return st.Ino, nil
}

// writeIdentity replaces the file as a whole.
func (d *Daemon) writeIdentity(id identity) error {
	var err error
	if id.Folder, err = inode(d.stateDir); err != nil {
		return err
	}
	b, err := json.Marshal(id)
	if err != nil {
		return err
	}
	return durable.WriteFile(filepath.Join(d.stateDir, identityFile), append(b, '\n'), 0o600)
}

// openRegistry finds etcd: the one that is configured, one in this process, or that of a cluster to
// join.
func (d *Daemon) openRegistry(ctx context.Context, undo *cleanup,
	end context.CancelCauseFunc) error {
	c := &d.cfg.Cluster
	name, id := c.Name, ""
	switch {
	case len(c.Etcd) > 0:
		d.etcdURLs = c.Etcd
	case len(c.Join) == 0:
		s, err := d.startEtcd(ctx)
		if err != nil {
			return err
		}
		undo.add(s.Close)
		go func() {
			if err, ok := <-s.Failed(); ok && err != nil {
				end(err)
			}
		}()
		d.etcdURLs = s.URLs()
		d.mu.Lock()
		d.embeds, d.etcd = true, s
		d.mu.Unlock()
	default:
		a, err := d.askAdmission(ctx)
		if err != nil {
			return err
		}
		d.etcdURLs, id = a.Etcd, a.Cluster
		name, _, _ = strings.Cut(id, "/")
		id = strings.TrimPrefix(id, name+"/")
		d.leaseNs.Store(int64(a.LeaseS * float64(time.Second)))
	}
	open := etcdmember.Config{Endpoints: d.etcdURLs, Cluster: name, ID: id, Lease: d.lease(),
		Clock: d.clock, Log: d.log.Named("membership")}
	if open.TLS = d.etcdTLS(); open.TLS != nil {
		open.CurrentTLS = d.sec.ClientTLS // follows Reload
	}
	r, err := etcdmember.Open(open)
	if err != nil {
		return err
	}
	d.registry = r
	undo.add(r.Close)
	return nil
}

// lease is how long the node stays a member unheard of.
func (d *Daemon) lease() time.Duration { return time.Duration(d.leaseNs.Load()) }

// etcdTLS is for https endpoints; plain ones ignore it.
func (d *Daemon) etcdTLS() *tls.Config {
	if len(d.etcdURLs) > 0 && !strings.HasPrefix(d.etcdURLs[0], "https") {
		return nil
	}
	return d.sec.ClientTLS()
}

// askAdmission asks the members named in cluster.join where etcd is, until one answers.
func (d *Daemon) askAdmission(ctx context.Context) (*pb.AdmitReply, error) {
	d.setPhase(status.Joining, "asks "+strings.Join(d.cfg.Cluster.Join, ", "))
	ctx, cancel := context.WithTimeout(ctx, joinTimeout)
	defer cancel()
	var last []string
	first, wait := time.Now(), retryWait
	warn := pace{least: retryWait, most: longestWarning}
	for {
		last = last[:0]
		for _, address := range d.cfg.Cluster.Join {
			a, err := d.admission(ctx, address)
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
		d.setPhase(status.Joining, strings.Join(last, "; "))
		if warn.due(time.Now()) {
			d.log.Warn("no member of cluster.join answers yet: is one running at these addresses?",
				zap.Strings("tried", last), zap.Duration("tries_again_in", wait),
				zap.Duration("gives_up_in", (joinTimeout-time.Since(first)).Round(time.Second)))
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("no member of cluster.join has answered within %v: %s", joinTimeout,
				strings.Join(last, "; "))
		case <-d.told:
			return nil, errors.New("told to stop before it had joined")
		case <-time.After(wait):
		}
		wait = min(2*wait, longestAsk)
	}
}

func (d *Daemon) admission(ctx context.Context, address string) (*pb.AdmitReply, error) {
	c, err := control.Dial(address, control.DialOptions{Security: d.sec, Caller: d.caller})
	if err != nil {
		return nil, err
	}
	a, err := c.Admit(ctx, &pb.AdmitRequest{Name: d.cfg.Node.Hostname(),
		Transport: d.cfg.Transport.Provider})
	return a, errors.Join(err, c.Close())
}

// belong keeps the node a member, in one incarnation after the other, until the daemon drains.
func (d *Daemon) belong(ctx context.Context, end context.CancelCauseFunc) {
	id, err := d.readIdentity()
	if err != nil {
		end(err)
		return
	}
	if id.copied() {
		d.event(status.Warn, fmt.Sprintf("the state folder %s is a copy of another node's: joins as a "+
			"new node", d.stateDir))
	}
	first := time.Now()
	joined := false
	var r refusal
	warn := pace{least: retryWait, most: longestWarning}
	for {
		lost, s, err := d.join(&id)
		if !byMembers(err) {
			r.forget()
		}
		switch {
		case err == nil:
			joined = true
			warn.reset()
			if !d.stay(ctx, s, lost) {
				return
			}
			d.settle(ctx)
			d.awaitDevice(ctx)
			continue
		case errors.Is(err, member.ErrUnreachable) && (joined || time.Since(first) < joinTimeout):
			phase := status.Joining
			if joined {
				phase = status.Refusing
			}
			d.setPhase(phase, err.Error())
			if warn.due(time.Now()) {
				d.log.Warn("not a member", zap.Error(err), zap.Duration("next_warning_in", warn.every))
			}
		case byMembers(err) && d.refused(&r, err, joined):
		default:
			end(fmt.Errorf("joining the cluster: %w%s", err, whatToDo(err)))
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-d.drain:
			return
		case <-time.After(retryWait):
		}
	}
}

// join makes the node a member.
func (d *Daemon) join(id *identity) (<-chan error, member.Session, error) {
	ctx, cancel := context.WithTimeout(context.Background(), d.lease())
	cluster, err := d.registry.ClusterID(ctx)
	cancel()
	if err != nil {
		return nil, nil, err
	}
	if id.Cluster != "" && cluster != id.Cluster {
		d.log.Warn("another cluster than in its former life", zap.String("was", id.Cluster),
			zap.String("is", cluster))
		*id = identity{Node: member.AnyNode}
	}
	want := id.Node
	if d.cfg.Node.ID >= 0 {
		want = d.cfg.Node.ID
	}
	lost := make(chan error, 1)
	c := member.Candidate{Node: want, Name: d.cfg.Node.Hostname(), Control: d.control,
		Build: d.o.Build, Replaces: id.Incarnation}
	l := &listener{d: d, lost: lost}
	s, err := d.registry.Join(c, l)
	if errors.Is(err, member.ErrTaken) && d.cfg.Node.ID < 0 {
		c.Node = member.AnyNode // somebody else got the old one
		s, err = d.registry.Join(c, l)
	}
	if err != nil {
		return nil, nil, err
	}
	st := s.State()
	*id = identity{Cluster: st.Cluster, Node: int(s.Self().Node), Incarnation: s.Self().Incarnation}
	if err := d.writeIdentity(*id); err != nil {
		d.log.Error("the node's identity was not stored: it will not take its place over after a "+
			"restart", zap.Error(err))
	}
	return lost, s, nil
}

// stay is a member until the lease is lost, and then reports true, or until the daemon ends.
func (d *Daemon) stay(ctx context.Context, s member.Session, lost <-chan error) bool {
	d.mu.Lock()
	d.session, d.state, d.rebuild = s, s.State(), true
	d.mu.Unlock()
	d.connecting(status.Loading)
	d.event(status.Info, fmt.Sprintf("joined as %v", s.Self()))
	d.poke()
	again := false
	select {
	case cause := <-lost:
		d.loseLease(cause)
		again = true
	case cause := <-d.anew:
		d.loseLease(cause)
		again = true
	case <-ctx.Done():
	case <-d.drain:
	}
	d.mu.Lock()
	d.session = nil
	d.mu.Unlock()
	if err := s.Leave(); err != nil && !again {
		d.log.Warn("the cluster was not told that this node leaves: its lease has to end", zap.Error(err))
	}
	return again
}

// loseLease takes the data plane out of service: the lease has ended, or the clock is wrong.
func (d *Daemon) loseLease(cause error) {
	d.setPhase(status.Refusing, cause.Error())
	d.event(status.Error, "refuses to serve: "+cause.Error())
	d.mu.Lock()
	r := d.run
	d.mu.Unlock()
	if r != nil {
		r.stop(cause)
	}
	d.fence(cause)
}

// watchLease notices by the own clock that the lease has ended: after the process was stopped, or
// while etcd's client waits for an answer.
func (d *Daemon) watchLease(ctx context.Context) {
	tick := time.NewTicker(leaseLook)
	defer tick.Stop()
	var told member.Session
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		d.mu.Lock()
		s := d.session
		d.mu.Unlock()
		if s == nil || s == told {
			continue
		}
		if _, held := s.Lease(); !held {
			told = s
			cause := fmt.Errorf("%w: %v, by this node's clock", member.ErrLeaseLost, d.lease())
			d.fence(cause)
		}
	}
}

// listener is told by the registry; its calls do not block.
type listener struct {
	d    *Daemon
	lost chan error
}

func (l *listener) Changed(s member.State) {
	l.d.mu.Lock()
	l.d.state = s
	l.d.mu.Unlock()
	l.d.poke()
}

func (l *listener) LeaseLost(cause error) { l.lost <- cause }

// member is the session, or why there is none.
func (d *Daemon) member() (member.Session, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.session == nil {
		return nil, fmt.Errorf("%w: this node is no member now (%s)", member.ErrLeaseLost, d.reason)
	}
	if _, held := d.session.Lease(); !held {
		return nil, fmt.Errorf("%w: this node refuses until it has joined again", member.ErrLeaseLost)
	}
	return d.session, nil
}
