package control

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "drtmd/cmd/drtmd/internal/control/controlpb"
	"drtmd/proto/member"
)

// ErrBusy: another run is under way.
var ErrBusy = errors.New("another run is under way")

// kinds are the errors that keep their meaning over the wire.
var kinds = []struct {
	name string
	err  error
}{
	{"stale", member.ErrStale}, {"not-member", member.ErrNotMember},
	{"lease-lost", member.ErrLeaseLost}, {"build", member.ErrBuild}, {"taken", member.ErrTaken},
	{"full", member.ErrFull}, {"unreachable", member.ErrUnreachable}, {"busy", ErrBusy},
}

// toWire makes a status of an error.
func toWire(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := status.FromError(err); ok {
		return err
	}
	code := codes.FailedPrecondition
	switch {
	case errors.Is(err, context.Canceled):
		code = codes.Canceled
	case errors.Is(err, context.DeadlineExceeded):
		code = codes.Aborted // not the deadline of this call
	}
	s := status.New(code, err.Error())
	for _, k := range kinds {
		if errors.Is(err, k.err) {
			if with, err := s.WithDetails(&pb.ErrorDetail{Kind: k.name}); err == nil {
				s = with
			}
			break
		}
	}
	return s.Err()
}

// RemoteError is what a daemon has answered.
type RemoteError struct {
	Address, Text string
	kind          error
}

func (e *RemoteError) Error() string { return e.Text }

// Unwrap gives the error of package member that it is, or nil.
func (e *RemoteError) Unwrap() error { return e.kind }

// ConnectError is a daemon that could not be asked.
type ConnectError struct {
	Address, Text string
	// Advice is how a daemon comes to listen where nobody does; "" if that is not what is wrong.
	Advice string
	Err    error
}

func (e *ConnectError) Error() string {
	text := fmt.Sprintf("%s: %s", e.Address, e.Text)
	if e.Advice != "" {
		text += "; " + e.Advice
	}
	return text
}

func (e *ConnectError) Unwrap() error { return e.Err }

// NobodyListens reports that a call was not sent: no process listened when the client last tried to
// connect. That may be a second ago, and one may listen by now.
func NobodyListens(err error) bool {
	var e *ConnectError
	return errors.As(err, &e) && e.Text == nobody
}

// nobody is the text of that.
const nobody = "no process listens there"

// startOne is the advice where nothing is known of who should listen.
const startOne = "start a node with drtmd serve, or a cluster with drtmd up"

// fromWire makes words of a call's error.
func fromWire(ctx context.Context, address string, secure bool, err error) error {
	if err == nil {
		return nil
	}
	s, ok := status.FromError(err)
	if !ok {
		return err
	}
	switch s.Code() {
	case codes.Canceled:
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	case codes.DeadlineExceeded:
		return &ConnectError{Address: address, Text: "no answer in time: the daemon may be stopped, or the " +
			"network cut; see drtmd status", Err: context.DeadlineExceeded}
	case codes.Unavailable:
		if absent(s.Message()) {
			return &ConnectError{Address: address, Text: nobody, Advice: startOne, Err: err}
		}
		return &ConnectError{Address: address, Text: explain(s.Message(), secure), Err: err}
	case codes.ResourceExhausted:
		if strings.Contains(s.Message(), "larger than max") {
			return &RemoteError{Address: address, Text: s.Message() + ": control.max_message bounds " +
				"messages; raise it on every node"}
		}
	case codes.Unimplemented:
		return &ConnectError{Address: address, Text: "the daemon does not know this call: it is another " +
			"version of drtmd", Err: err}
	}
	e := &RemoteError{Address: address, Text: s.Message()}
	for _, d := range s.Details() {
		if x, ok := d.(*pb.ErrorDetail); ok {
			for _, k := range kinds {
				if k.name == x.Kind {
					e.kind = k.err
				}
			}
		}
	}
	return e
}

// cut reports whether a call has failed because its connection was closed.
func closed(err error) bool {
	s, ok := status.FromError(err)
	return ok && s.Code() == codes.Unavailable && isClosed(s.Message())
}

func isClosed(text string) bool {
	for _, s := range []string{"EOF", "reset by peer", "broken pipe"} {
		if strings.Contains(text, s) {
			return true
		}
	}
	return false
}

// absent reports that nobody listens.
func absent(text string) bool {
	return strings.Contains(text, "connection refused") || strings.Contains(text, "no such file")
}

// explain says what else is wrong with a connection, and what to do.
func explain(text string, secure bool) string {
	has := func(s string) bool { return strings.Contains(text, s) }
	closed := isClosed(text)
	switch {
	case has("permission denied"):
		return "the socket is another user's: ask as that user, or as root"
	case has("first record does not look like a TLS handshake"):
		return "no TLS there: leave --ca, --cert and --key out"
	case has("certificate has expired"):
		return "a certificate has expired: make new ones with drtmd certs (" + text + ")"
	case has("expired certificate"): // as the other end says it
		return "your certificate has expired: make a new one with drtmd certs --force (" + text + ")"
	case has("certificate signed by unknown authority"), has("unknown certificate authority"),
		has("bad certificate"), has(x509.UnknownAuthorityError{}.Error()):
		return "the certificates are not of one CA: give the --ca of this cluster, and a --cert that " +
			"it has signed (" + text + ")"
	case has("certificate is valid for"), has("doesn't contain any IP SANs"):
		return "the certificate is for another name or address: make it again with drtmd certs --host (" +
			text + ")"
	case has("certificate required"):
		return "it asks for a certificate: give --ca, --cert and --key"
	case !secure && (closed || has("error reading server preface")):
		return "it closed the connection: it may ask for TLS (give --ca, --cert and --key), be full, " +
			"or be no control port of drtmd"
	case secure && has("authentication handshake failed") && closed:
		return "it closed the connection before TLS began: it may be full (control.max_connections), " +
			"or be no control port of drtmd"
	case has("error reading server preface"), has("frame too large"):
		return "no control port of drtmd listens there"
	}
	return "not reached: " + dialing(text)
}

// dialing is what gRPC says of a connection, without its own words around it.
func dialing(text string) string {
	if _, inner, ok := strings.Cut(text, "Error while dialing: "); ok {
		return strings.TrimSuffix(inner, `"`)
	}
	return text
}
