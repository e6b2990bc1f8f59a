package etcdmember

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"drtmd/internal/durable"
)

// ServerConfig of Start.
type ServerConfig struct {
	// Dir holds etcd's data, and the port that it listens on if that was left to it. 0700.
	Dir string
	// Listen is HOST:PORT; without certificates a loopback address. Port 0 is a free one, the same
	// again in each life.
	Listen string
	// CA, Cert and Key are files (PEM), all or none. With them, clients have to show a certificate
	// of the CA.
	CA, Cert, Key string
	// TLS, if not nil, shakes hands with clients in place of the files, which are given as well: it may
	// follow certificates and a CA that were replaced, by GetConfigForClient. Without it, a replaced
	// certificate counts from the next connection on, and the CA stays as it was at Start.
	TLS *tls.Config
	// Log takes etcd's warnings and errors; nil drops them.
	Log *zap.Logger

	exit func(error) // see crash
}

// Bounds of the embedded server. The state is a few kilobytes and changes a few times an hour.
const (
	startTimeout   = 30 * time.Second
	lockTimeout    = 3 * time.Second
	lockLook       = 20 * time.Millisecond
	quotaBytes     = 256 << 20
	keptRevisions  = "1000"
	snapshotEvery  = 1000
	heartbeatMs    = 100
	electionMs     = 1000
	maxRequest     = 1 << 20
	dataFolder     = "etcd"
	portFile       = "etcd.port"
	lockFile       = "etcd.lock"
	peerFolder     = "etcd.peer"
	peerSocketName = "peer"
	httpSocketName = "http"
	// mostSocketPath is what the kernel takes as a unix socket's address (unix(7): 108 with its end).
	mostSocketPath = 107
)

// Server is an etcd with one member in this process. What damages it can end the process: Spawn starts
// one whose end is an error of Failed.
type Server struct {
	etcd *embed.Etcd
	urls []string
	dir  string // of the raft listener's socket
	lock *os.File

	level  zap.AtomicLevel // of its log
	crash  *crash
	failed chan error // holds one; closed when etcd has been closed

	once   sync.Once
	closed error // of Close
}

// ErrInUse: another process serves the data.
var ErrInUse = errors.New("etcd's data is in use by another process")

// ErrOpen: the address would let anybody rewrite epochs.
var ErrOpen = errors.New("etcd beyond this host needs certificates of both sides")

// Start starts the server, on what it had stored before, and waits until it serves. Nobody but this
// process can speak raft with it: that listener is a socket in a folder of its own.
func Start(ctx context.Context, cfg ServerConfig) (*Server, error) {
	secure := cfg.Cert != ""
	if secure != (cfg.CA != "") || secure != (cfg.Key != "") {
		// Without a CA of ours, etcd would take any certificate that this system trusts.
		return nil, fmt.Errorf("%w: CA %q, certificate %q and key %q are not complete; drtmd certs "+
			"makes all three", ErrOpen, cfg.CA, cfg.Cert, cfg.Key)
	}
	log := cfg.Log
	if log == nil {
		log = zap.NewNop()
	}
	address, err := listenAddress(cfg.Dir, cfg.Listen, secure, log)
	if err != nil {
		return nil, err
	}
	lock, err := lockData(ctx, cfg.Dir)
	if err != nil {
		return nil, err
	}
	if err := verify(filepath.Join(cfg.Dir, dataFolder)); err != nil {
		return nil, errors.Join(explainStart(err, cfg.Dir, address), lock.Close())
	}
	peers, err := makePeerFolder(cfg.Dir)
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	s := &Server{dir: peers, lock: lock, crash: newCrash(cfg.exit), failed: make(chan error, 1)}
	e := embed.NewConfig()
	e.Name, e.Dir = "drtmd", filepath.Join(cfg.Dir, dataFolder)
	scheme := "http"
	if secure {
		scheme = "https"
		e.ClientTLSInfo = transport.TLSInfo{CertFile: cfg.Cert, KeyFile: cfg.Key,
			TrustedCAFile: cfg.CA, ClientCertAuth: true}
	}
	if secure && cfg.TLS != nil {
		// With HTTP somewhere else, gRPC itself shakes hands on the port, by the last of its options.
		e.ListenClientHttpUrls = []url.URL{{Scheme: "unix", Host: filepath.Join(peers, httpSocketName)}}
		e.GRPCAdditionalServerOptions = []grpc.ServerOption{grpc.Creds(credentials.NewTLS(cfg.TLS))}
	}
	client := url.URL{Scheme: scheme, Host: address}
	e.ListenClientUrls, e.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
	e.ListenPeerUrls = []url.URL{{Scheme: "unix", Host: filepath.Join(peers, peerSocketName)}}
	// A cluster of one dials no peer: the address is only a name.
	e.AdvertisePeerUrls = []url.URL{{Scheme: "http", Host: "localhost:2380"}}
	e.InitialCluster = e.InitialClusterFromName(e.Name)
	e.QuotaBackendBytes, e.SnapshotCount = quotaBytes, snapshotEvery
	e.AutoCompactionMode, e.AutoCompactionRetention = embed.CompactorModeRevision, keptRevisions
	e.TickMs, e.ElectionMs, e.MaxRequestBytes = heartbeatMs, electionMs, maxRequest
	e.EnableGRPCGateway = false
	// Its warnings at the start are about its defaults, and what it calls errors at the end is that
	// its listeners are closed.
	s.level = zap.NewAtomicLevelAt(zap.ErrorLevel)
	e.ZapLoggerBuilder = embed.NewZapLoggerBuilder(log.WithOptions(zap.IncreaseLevel(s.level),
		zap.WithFatalHook(s.crash), zap.WithPanicHook(s.crash)))
	s.urls = []string{client.String()}
	if s.etcd, err = s.crash.start(e); err != nil {
		return nil, errors.Join(explainStart(err, cfg.Dir, address), os.RemoveAll(peers),
			lock.Close())
	}
	go s.watch()
	select {
	case <-s.etcd.Server.ReadyNotify():
		s.level.SetLevel(zap.WarnLevel)
		return s, nil
	case err = <-s.Failed():
	case <-ctx.Done():
		err = ctx.Err()
	case <-time.After(startTimeout):
		err = fmt.Errorf("not ready after %v", startTimeout)
	}
	return nil, errors.Join(fmt.Errorf("embedded etcd in %s: %w", cfg.Dir, err), s.Close())
}

// explainStart says what to do about the usual causes.
func explainStart(err error, dir, address string) error {
	text := err.Error()
	if strings.Contains(text, "address already in use") {
		return fmt.Errorf("embedded etcd: %s is taken by another program (is another drtmd running "+
			"there?); set cluster.etcd_listen to another address: %w", address, err)
	}
	return fmt.Errorf("embedded etcd in %s: %w", dir, err)
}

// lockData takes the data for this process. etcd itself would wait for another one's without end; the
// process of a life that was just killed takes a moment to go.
func lockData(ctx context.Context, dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	for end := time.Now().Add(lockTimeout); ; {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil:
			return f, nil
		case ctx.Err() != nil, time.Now().After(end):
			return nil, errors.Join(fmt.Errorf("%w: %s: stop it, or give this node a folder of its own",
				ErrInUse, dir), f.Close())
		}
		time.Sleep(lockLook)
	}
}

// makePeerFolder makes the folder of the raft listener's socket: beside the data, where a life that
// was killed leaves nothing behind that the next one does not take, unless that path is too long.
func makePeerFolder(dir string) (string, error) {
	peers := filepath.Join(dir, peerFolder)
	if len(filepath.Join(peers, peerSocketName)) > mostSocketPath {
		return os.MkdirTemp("", "drtmd-etcd-")
	}
	if err := os.RemoveAll(peers); err != nil {
		return "", err
	}
	return peers, os.Mkdir(peers, 0o700)
}

// listenAddress is the address to listen on, with a port.
func listenAddress(dir, listen string, secure bool, log *zap.Logger) (string, error) {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return "", fmt.Errorf("etcd's address %q: expected HOST:PORT: %w", listen, err)
	}
	if !secure && !loopback(host) {
		return "", fmt.Errorf("%w: %s is not a loopback address; give control.ca, control.cert and "+
			"control.key, made by drtmd certs", ErrOpen, listen)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	if port != "0" {
		return listen, nil
	}
	file := filepath.Join(dir, portFile)
	b, err := os.ReadFile(file)
	if err == nil {
		kept := strings.TrimSpace(string(b))
		if n, err := strconv.ParseUint(kept, 10, 16); err == nil && n > 0 {
			return net.JoinHostPort(host, kept), nil
		}
		log.Warn("the file that keeps etcd's port has none, so that it listens on another one: members "+
			"that live look for the old one, and have to be started again", zap.String("file", file),
			zap.ByteString("content", b))
	} else if !errors.Is(err, os.ErrNotExist) {
		return "", err
	}
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return "", err
	}
	address := l.Addr().String()
	_, port, _ = net.SplitHostPort(address) // it comes from a listener
	if err := errors.Join(l.Close(), durable.WriteFile(file, []byte(port+"\n"), 0o600)); err != nil {
		return "", err
	}
	return net.JoinHostPort(host, port), nil
}

func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// URLs are for clients.
func (s *Server) URLs() []string { return s.urls }

// Failed gives an error when the server has stopped by itself; it is closed when Close has closed it.
func (s *Server) Failed() <-chan error { return s.failed }

// watch ends with etcd.
func (s *Server) watch() {
	for {
		var err error
		var ok bool
		select {
		case err, ok = <-s.etcd.Err():
			if !ok {
				close(s.failed)
				return
			}
		case err = <-s.crash.failed:
		}
		select {
		case s.failed <- err:
		default: // the first one counts
		}
	}
}

// Close stops the server; what it stored stays.
func (s *Server) Close() error {
	s.once.Do(func() {
		s.level.SetLevel(zap.DPanicLevel)
		if !s.crash.happened.Load() { // or it would wait for what has ended in the midst of something
			s.etcd.Close()
		}
		s.closed = errors.Join(os.RemoveAll(s.dir), s.lock.Close())
	})
	return s.closed
}
