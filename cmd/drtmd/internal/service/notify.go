package service

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"golang.org/x/sys/unix"
)

// Notifier tells systemd how the service is, over $NOTIFY_SOCKET; without one it does nothing. It
// may be used from any goroutine.
type Notifier struct {
	watchdog time.Duration // 0 is none
}

// NewNotifier looks for a watchdog.
func NewNotifier() (*Notifier, error) {
	every, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		return nil, fmt.Errorf("WATCHDOG_USEC or WATCHDOG_PID of the environment: %w", err)
	}
	return &Notifier{watchdog: every}, nil
}

func (n *Notifier) send(state string) error {
	if _, err := daemon.SdNotify(false, state); err != nil {
		return fmt.Errorf("systemd's socket %s: %w", os.Getenv("NOTIFY_SOCKET"), err)
	}
	return nil
}

// Ready says that the service serves, and how it is.
func (n *Notifier) Ready(text string) error { return n.send("READY=1\nSTATUS=" + oneLine(text)) }

// Status says how the service is, for systemctl status.
func (n *Notifier) Status(text string) error { return n.send("STATUS=" + oneLine(text)) }

// Reloading says that the configuration is being read again; Ready follows.
func (n *Notifier) Reloading() error {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		return err
	}
	return n.send("RELOADING=1\nMONOTONIC_USEC=" + strconv.FormatInt(t.Nano()/1000, 10))
}

// Stopping says that the service has begun to stop.
func (n *Notifier) Stopping() error { return n.send("STOPPING=1") }

// Watch pings the watchdog at half of its time until ctx ends, as long as alive gives no error: the
// error is reported to systemd in words, and without pings it ends the service.
func (n *Notifier) Watch(ctx context.Context, alive func() error) {
	if n.watchdog == 0 {
		return
	}
	tick := time.NewTicker(n.watchdog / 2)
	defer tick.Stop()
	for {
		if err := alive(); err == nil {
			_ = n.send("WATCHDOG=1") // systemd may be gone; then nobody waits for it
		} else {
			_ = n.Status("not alive: " + err.Error())
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// oneLine keeps a text from being several variables.
func oneLine(text string) string {
	b := []byte(text)
	for i, c := range b {
		if c < ' ' {
			b[i] = ' '
		}
	}
	return string(b)
}
