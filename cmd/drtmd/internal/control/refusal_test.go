package control

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	_ "google.golang.org/grpc/encoding/gzip" // a server that can decompress is the worst case
	"google.golang.org/protobuf/proto"

	"google.golang.org/grpc"

	pb "drtmd/cmd/drtmd/internal/control/controlpb"
	"drtmd/proto/member"
)

// quiet answers steps with nothing.
type quiet struct{ backend }

func (*quiet) Do(context.Context, member.ShardVersion, []byte) ([]byte, error) { return nil, nil }

// TestMessagesBeyondTheLimitAreRefused to the byte, and compressed ones by what they hold.
func TestMessagesBeyondTheLimitAreRefused(t *testing.T) {
	const limit = 1 << 20 // bytes
	address := serving(t, "127.0.0.1:0", Options{Backend: &quiet{}, Limits: Limits{MaxConnections: 4,
		MaxMessage: limit, RatePerPeer: 1000}})
	c := dialed(t, address, nil, Caller{})
	full := &pb.StepRequest{ShardVersion: 1, RequestJson: make([]byte, limit)}
	fits := limit - (proto.Size(full) - limit)
	for _, k := range []struct {
		name    string
		bytes   int
		opts    []grpc.CallOption
		refused bool
	}{
		{"the limit", fits, nil, false}, {"a byte more", fits + 1, nil, true},
		{"the limit, compressed", fits, []grpc.CallOption{grpc.UseCompressor("gzip")}, false},
		{"a byte more, compressed", fits + 1, []grpc.CallOption{grpc.UseCompressor("gzip")}, true},
		{"a bomb", 64 * limit, []grpc.CallOption{grpc.UseCompressor("gzip")}, true},
	} {
		// Long enough to compress the bomb under the race detector beside other tests.
		long, end := context.WithTimeout(context.Background(), 2*time.Minute)
		ctx, cancel := c.begin(long)
		_, err := c.plane.Do(ctx, &pb.StepRequest{ShardVersion: 1, RequestJson: make([]byte, k.bytes)},
			k.opts...)
		err = c.words(ctx, err)
		cancel()
		end()
		if (err != nil) != k.refused || err != nil && !strings.Contains(err.Error(),
			"control.max_message") {
			t.Errorf("%s: %v", k.name, err)
		}
	}
}

// as runs f on a thread of another user, which ends with it.
func as(uid int, f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread is of no more use
		_, _, e := unix.RawSyscall(unix.SYS_SETRESUID, uintptr(uid), uintptr(uid), uintptr(uid))
		if e != 0 {
			done <- e
			return
		}
		done <- f()
	}()
	return <-done
}

// TestSocketsRefuseOtherUsers by the mode, and where that was opened by the peer's user id.
func TestSocketsRefuseOtherUsers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can be another user")
	}
	const nobody = 65534
	dir := short(t)
	path := filepath.Join(dir, "s")
	serving(t, unixPrefix+path, Options{})
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	// greeted is nil if the server begins to speak.
	greeted := func() error {
		c, err := net.Dial("unix", path)
		if err != nil {
			return err
		}
		err = c.SetDeadline(time.Now().Add(30 * time.Second))
		if err == nil {
			_, err = io.ReadFull(c, make([]byte, 9)) // the head of a frame
		}
		return errors.Join(err, c.Close())
	}
	if err := as(0, greeted); err != nil {
		t.Errorf("the own user: %v", err)
	}
	if err := as(nobody, greeted); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("another user, by the mode: %v", err)
	}
	if err := os.Chmod(path, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := as(nobody, greeted); !errors.Is(err, io.EOF) && !errors.Is(err, unix.ECONNRESET) {
		t.Errorf("another user, by its id: %v", err)
	}
}
