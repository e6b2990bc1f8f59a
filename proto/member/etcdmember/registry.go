package etcdmember

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"drtmd/proto/member"
	"drtmd/verbs"
)

// LeastLease is the shortest membership lease: etcd gives no shorter ones.
const LeastLease = 2 * time.Second

// redial is the first wait before a connection is made again.
const redial = 50 * time.Millisecond

// Config of Open.
type Config struct {
	Endpoints []string    // client URLs
	TLS       *tls.Config // nil without TLS
	// CurrentTLS, if not nil, is asked at each handshake in place of TLS, so that certificates and CAs
	// that were replaced count from the next connection on. It may be called from any goroutine.
	CurrentTLS func() *tls.Config
	Cluster    string // its name
	// ID that the cluster is known to have (member.State.Cluster); "" takes any.
	ID    string
	Lease time.Duration // membership lease, whole seconds
	Clock verbs.Clock   // what Session.Lease is told by
	Log   *zap.Logger   // nil drops it
}

// Registry is a cluster's membership in etcd.
type Registry struct {
	cfg    Config
	client *clientv3.Client
}

// Open makes a client. It waits for nothing: an etcd that cannot be reached shows in the first call.
func Open(cfg Config) (*Registry, error) {
	if cfg.Lease < LeastLease || cfg.Lease%time.Second != 0 {
		return nil, fmt.Errorf("membership lease %v: want whole seconds, at least %v", cfg.Lease,
			LeastLease)
	}
	if cfg.Cluster == "" || strings.ContainsAny(cfg.Cluster, "/ ") {
		return nil, fmt.Errorf("name of the cluster %q: want a word without slashes", cfg.Cluster)
	}
	if cfg.Log == nil {
		cfg.Log = zap.NewNop()
	}
	// A connection that was cut is made again well within the lease.
	options := []grpc.DialOption{grpc.WithConnectParams(grpc.ConnectParams{
		Backoff: backoff.Config{BaseDelay: redial, Multiplier: 1.5, Jitter: 0.2,
			MaxDelay: cfg.Lease / 8}, MinConnectTimeout: cfg.Lease / 3})}
	if cfg.CurrentTLS != nil {
		// Of two such options the last one counts; etcd's own comes before.
		options = append(options, grpc.WithTransportCredentials(newCurrent(cfg.CurrentTLS)))
	}
	c, err := clientv3.New(clientv3.Config{Endpoints: cfg.Endpoints, TLS: cfg.TLS,
		DialTimeout: cfg.Lease, DialKeepAliveTime: cfg.Lease, DialKeepAliveTimeout: cfg.Lease,
		DialOptions: options,
		Logger:      zap.NewNop()}) // its errors come back from the calls
	if err != nil {
		return nil, fmt.Errorf("etcd at %s: %w", strings.Join(cfg.Endpoints, ", "), err)
	}
	return &Registry{cfg: cfg, client: c}, nil
}

// Close ends the client. Sessions have to be over.
func (r *Registry) Close() error {
	if err := r.client.Close(); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

func (r *Registry) prefix() string   { return "/drtmd/" + r.cfg.Cluster + "/" }
func (r *Registry) stateKey() string { return r.prefix() + "state" }
func (r *Registry) alivePrefix() string {
	return r.prefix() + "alive/"
}

func (r *Registry) aliveKey(m member.Member) string {
	return fmt.Sprintf("%s%d-%d", r.alivePrefix(), m.Node, m.Incarnation)
}

// callTimeout bounds one call of a member, and is the time between two renewals: several fit into
// the lease.
func (r *Registry) callTimeout() time.Duration { return r.cfg.Lease / 4 }

// changeTimeout bounds a change by a member, with its repetitions.
func (r *Registry) changeTimeout() time.Duration { return r.cfg.Lease / 3 }

// joinTimeout bounds what nobody's lease depends on.
func (r *Registry) joinTimeout() time.Duration { return 2 * r.cfg.Lease }

// unreachable names the error of a call that etcd did not answer.
func (r *Registry) unreachable(err error) error {
	return fmt.Errorf("%w: etcd at %s: %w", member.ErrUnreachable,
		strings.Join(r.cfg.Endpoints, ", "), err)
}

// stored is the state with its revision; 0 if there is none yet.
type stored struct {
	state    member.State
	revision int64 // of the key's last change
	at       int64 // of the store when it was read
	alive    map[string]bool
}

// withoutExpired is the state without the members whose lease has ended. A member and its key are
// written in one transaction, and the state and the keys were read at one revision. So a member without
// a key is dead.
func (r *Registry) withoutExpired(old *stored) (member.State, error) {
	s := old.state.Clone()
	for _, m := range old.state.Newest().Members {
		if old.alive[r.aliveKey(m)] {
			continue
		}
		var err error
		if s, err = s.Remove(m); err != nil {
			return s, err
		}
	}
	return s, nil
}

// load reads the state and who is alive, at one revision.
func (r *Registry) load(ctx context.Context) (*stored, error) {
	got, err := r.client.Get(ctx, r.prefix(), clientv3.WithPrefix())
	if err != nil {
		return nil, r.unreachable(err)
	}
	s := &stored{at: got.Header.Revision, alive: map[string]bool{}}
	for _, kv := range got.Kvs {
		switch key := string(kv.Key); {
		case key == r.stateKey():
			if err := json.Unmarshal(kv.Value, &s.state); err != nil {
				return nil, fmt.Errorf("etcd's key %s holds no state of drtmd: %w", key, err)
			}
			s.revision = kv.ModRevision
		case strings.HasPrefix(key, r.alivePrefix()):
			s.alive[key] = true
		}
	}
	if r.cfg.ID != "" && s.revision != 0 && s.state.Cluster != r.cfg.ID {
		return nil, fmt.Errorf("etcd at %s holds cluster %s, not %s", strings.Join(r.cfg.Endpoints,
			", "), s.state.Cluster, r.cfg.ID)
	}
	return s, nil
}

// ClusterID is member.State.Cluster of the cluster that is there; "" if there is none yet.
func (r *Registry) ClusterID(ctx context.Context) (string, error) {
	s, err := r.load(ctx)
	if err != nil {
		return "", err
	}
	return s.state.Cluster, nil
}

// transition gives the next state.
type transition func(old *stored) (member.State, error)

// change applies a transition to the state until no other change comes between, it fails, or ctx
// ends. more are operations of the same transaction.
func (r *Registry) change(ctx context.Context, f transition,
	more func() []clientv3.Op) (member.State, error) {
	for {
		old, err := r.load(ctx)
		if err != nil {
			return member.State{}, err
		}
		if old.revision == 0 {
			old.state.Cluster = r.cfg.Cluster + "-" + randomName()
		}
		next, err := f(old)
		if err != nil {
			return next, err
		}
		b, err := json.Marshal(next)
		if err != nil {
			return next, err
		}
		ops := []clientv3.Op{clientv3.OpPut(r.stateKey(), string(b))}
		if more != nil {
			ops = append(ops, more()...)
		}
		done, err := r.client.Txn(ctx).
			If(clientv3.Compare(clientv3.ModRevision(r.stateKey()), "=", old.revision)).
			Then(ops...).Commit()
		if err != nil {
			return next, r.unreachable(err)
		}
		if done.Succeeded {
			return next, nil
		}
	}
}

func randomName() string {
	var b [8]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
