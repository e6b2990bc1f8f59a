package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"net"
	"net/http"
	"net/http/pprof"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"

	"drtmd/cmd/drtmd/internal/bounded"
	"drtmd/cmd/drtmd/internal/load"
	"drtmd/cmd/drtmd/internal/status"
)

// Source is the daemon. Its methods may be called at the same time.
type Source interface {
	Status(ctx context.Context, self bool) (*status.Cluster, error)
	// Metrics are those of the data plane; nil while there is none.
	Metrics(ctx context.Context) (*load.Metrics, error)
	Alive() error
	Ready() error
	// CertificateExpires is the zero time without TLS.
	CertificateExpires() time.Time
}

// Options of NewServer.
type Options struct {
	Source Source
	Log    *zap.Logger
	// PprofEverywhere serves profiles to other hosts as well.
	PprofEverywhere bool
	Build           string
	// Hosts are names under which the port may be asked, beside addresses and the host's own.
	Hosts []string
}

// Bounds of the server.
const (
	headerTimeout  = 5 * time.Second
	requestTimeout = 10 * time.Second
	idleTimeout    = 60 * time.Second
	profileTimeout = 5 * time.Minute
	maxHeaderBytes = 8 << 10
	maxConnections = 64
	askTimeout     = 4 * time.Second
)

// Server serves the admin port.
type Server struct {
	o     Options
	http  *http.Server
	ring  *ring
	views *views
	// template of the live page.
	template *template.Template
	wg       sync.WaitGroup     // the sampling goroutine
	end      context.CancelFunc // ends it
}

// NewServer makes a server that listens nowhere yet, and begins to look at the source each second.
// Close ends that.
func NewServer(o Options) *Server {
	s := &Server{o: o, ring: &ring{}, views: newViews(), template: pageTemplate()}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", s.page)
	mux.HandleFunc("GET /page.css", embedded("text/css; charset=utf-8", styleText))
	mux.HandleFunc("GET /page.js", embedded("text/javascript; charset=utf-8", scriptText))
	mux.HandleFunc("GET /chart.js", embedded("text/javascript; charset=utf-8", chartText))
	mux.HandleFunc("GET /live.json", s.live)
	mux.HandleFunc("GET /status.json", s.status)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		health(w, o.Source.Alive())
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		health(w, o.Source.Ready())
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(newRegistry(o), promhttp.HandlerOpts{
		MaxRequestsInFlight: 4, Timeout: askTimeout, ErrorLog: zap.NewStdLog(o.Log)}))
	for path, h := range map[string]http.HandlerFunc{"": pprof.Index, "cmdline": pprof.Cmdline,
		"profile": pprof.Profile, "symbol": pprof.Symbol, "trace": pprof.Trace} {
		mux.HandleFunc("GET /debug/pprof/"+path, s.profile(h))
	}
	s.http = &http.Server{Handler: s.guard(mux), ReadHeaderTimeout: headerTimeout,
		ReadTimeout: requestTimeout, WriteTimeout: requestTimeout, IdleTimeout: idleTimeout,
		MaxHeaderBytes: maxHeaderBytes, DisableGeneralOptionsHandler: true,
		ErrorLog: zap.NewStdLog(o.Log.WithOptions(zap.IncreaseLevel(
			zap.WarnLevel)))}
	ctx, end := context.WithCancel(context.Background())
	s.end = end
	s.wg.Go(func() { s.sample(ctx) })
	return s
}

// Serve serves until Close. It closes l.
func (s *Server) Serve(l net.Listener) error {
	err := s.http.Serve(bounded.Listener(l, maxConnections, nil))
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// Close ends the server: requests under way get until ctx ends.
func (s *Server) Close(ctx context.Context) error {
	s.end()
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, s.http.Close())
	}
	s.wg.Wait()
	return err
}

// guard refuses what no page of this server asks for, and tells browsers to be careful.
func (s *Server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; script-src 'self'; "+
			"connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			h.Set("Allow", "GET, HEAD")
			http.Error(w, "this port only shows: GET and HEAD", http.StatusMethodNotAllowed)
			return
		}
		if !s.ownHost(r.Host) {
			http.Error(w, "this port is not known under that name; ask it by its address",
				http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// ownHost keeps pages of other sites from reading this one through a name that they have pointed
// at it: addresses, localhost and the host's names are fine.
func (s *Server) ownHost(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = host
	}
	name = strings.ToLower(strings.Trim(name, "[]"))
	if net.ParseIP(name) != nil || name == "localhost" {
		return true
	}
	own, err := os.Hostname()
	if err == nil && (name == strings.ToLower(own) ||
		strings.HasPrefix(name, strings.ToLower(own)+".")) {
		return true
	}
	for _, h := range s.o.Hosts {
		if name == strings.ToLower(h) {
			return true
		}
	}
	return false
}

// profile serves a profile to clients on loopback.
func (s *Server) profile(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		host, _, _ := net.SplitHostPort(r.RemoteAddr) // net/http writes it
		if ip := net.ParseIP(host); !s.o.PprofEverywhere && (ip == nil || !ip.IsLoopback()) {
			http.Error(w, "profiles are for clients on this host; "+
				"admin.pprof: true serves them to others", http.StatusForbidden)
			return
		}
		late := time.Now().Add(profileTimeout)
		c := http.NewResponseController(w)
		// The deadline of reading ends a request as well, even if all of it was read.
		if err := errors.Join(c.SetWriteDeadline(late), c.SetReadDeadline(late)); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		h(w, r)
	}
}

func health(w http.ResponseWriter, err error) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if err != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprintln(w, err)
		return
	}
	fmt.Fprintln(w, "ok")
}

func (s *Server) status(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), askTimeout)
	defer cancel()
	st, err := s.o.Source.Status(ctx, r.URL.Query().Get("self") != "")
	s.json(w, st, err)
}

func (s *Server) json(w http.ResponseWriter, v any, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(v); err != nil {
		s.o.Log.Debug("the client went away", zap.Error(err))
	}
}
