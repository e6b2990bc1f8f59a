package rpc

import (
	"fmt"
	"time"
)

// Defaults of Config, and bounds that are not settings.
const (
	defaultQKey        = 0x11ad7d
	defaultPeers       = 16
	defaultSlots       = 32
	defaultWindow      = 8
	defaultMaxMessage  = 16 << 10
	defaultSendDepth   = 64
	defaultRTOMin      = 5 * time.Millisecond // as eRPC: loss is rare, a thread off its core is not
	defaultRTOFirst    = 10 * time.Millisecond
	defaultRTOMax      = 200 * time.Millisecond
	defaultPeerTimeout = 2 * time.Second
	defaultTries       = 32
	defaultHealFirst   = time.Millisecond
	defaultHealMost    = 128 * time.Millisecond
	defaultInline      = 256

	maxPeers   = 4096
	minMessage = 256 // every port takes this much, so that errors in words arrive whole

	// recvSlack is the receive buffers per peer beyond the window: datagrams without a message,
	// which only acknowledge, and the probes of a peer that takes what it sent for lost, while
	// this port's thread is stopped for up to 15 of its retransmission timeouts.
	recvSlack = 4
	// repostBatch is the receive buffers that are given back to the device in one go.
	repostBatch = 16
	// strayBuffers take hellos and whatever else is of no session.
	strayBuffers = 16
)

// Config of NewPort. Zero fields take the defaults that are named.
type Config struct {
	// Incarnation tells this life of the port from those before and after. It must not be zero
	// and should be random: a counter that begins anew would repeat.
	Incarnation uint64
	// Self is what handlers of peers learn of this port; the zero value is worker 0 of node 0.
	Self  Identity
	QKey  uint32 // of the queue pair; 0 = 0x11ad7d
	Peers int    // sessions at a time; 0 = 16
	// Slots is the number of requests outstanding per session and direction; 0 = 32. One per
	// fiber that calls at the same time is enough.
	Slots int
	// Window is the number of datagrams that a peer may have in flight to this port; 0 = 8. The
	// port posts (Window + 4) * Peers + 32 receive buffers of one MTU each.
	Window     int
	MaxMessage int // bytes of the longest request or response; 0 = 16 KiB
	// Inline is the bytes of the longest datagram that goes with the doorbell, without the device fetching
	// it; 0 = 256, or what the device takes if that is less.
	Inline    int
	SendDepth int  // datagrams that may wait for the device; 0 = 64
	NoBatch   bool // each message in a datagram of its own
	// AnswersApart: on flows, no datagram has both requests and answers, as where a batch of requests is one request of
	// the layer below, and its answer a batch of answers (Dandelion §5.3).
	AnswersApart bool

	// ForgetServed is a deliberate bug, for tests that show that checks find it: a request that
	// was answered and comes again is executed again.
	ForgetServed bool
	// Mutation is another deliberate bug; the zero value is none.
	Mutation Mutation

	RTOMin      time.Duration // least retransmission timeout; 0 = 5 ms
	RTOFirst    time.Duration // the one before a round trip was measured; 0 = 10 ms
	RTOMax      time.Duration // most; 0 = 200 ms, or PeerTimeout / 8 if that is less
	PeerTimeout time.Duration // silence, while the own thread runs, after which a peer is gone, at least 4 RTOMax; 0 = 2 s
	// HealFirst and HealMost are the least and the most time between two tries to bring a queue pair
	// back that a network interface which is down has broken; it doubles from one to the other. 0 =
	// 1 ms and 128 ms.
	HealFirst, HealMost time.Duration
	// Tries bounds the transmissions of one request that a peer which is alive does not answer
	// in any way; 0 = 32.
	Tries int
}

// Completions is what the port adds to WorkerConfig.Extra.
func (c Config) Completions() int {
	c.fill()
	return c.recvDepth() + c.SendDepth
}

func (c *Config) recvDepth() int {
	return (c.Window+recvSlack)*c.Peers + strayBuffers + repostBatch
}

func fill[T int | uint32 | time.Duration](v *T, value T) {
	if *v == 0 {
		*v = value
	}
}

func (c *Config) fill() {
	fill(&c.QKey, defaultQKey)
	fill(&c.Peers, defaultPeers)
	fill(&c.Inline, defaultInline)
	fill(&c.Slots, defaultSlots)
	fill(&c.Window, defaultWindow)
	fill(&c.MaxMessage, defaultMaxMessage)
	fill(&c.SendDepth, defaultSendDepth)
	fill(&c.PeerTimeout, defaultPeerTimeout)
	fill(&c.RTOMax, min(defaultRTOMax, c.PeerTimeout/8))
	fill(&c.RTOMin, min(defaultRTOMin, c.RTOMax))
	fill(&c.RTOFirst, min(max(defaultRTOFirst, c.RTOMin), c.RTOMax))
	fill(&c.Tries, defaultTries)
	fill(&c.HealFirst, defaultHealFirst)
	fill(&c.HealMost, max(defaultHealMost, c.HealFirst))
}

func (c *Config) check() error {
	within := func(what string, v, low, high int) error {
		if v < low || v > high {
			return fmt.Errorf("%s %d is not in %d..%d", what, v, low, high)
		}
		return nil
	}
	if c.Incarnation == 0 {
		return fmt.Errorf("the incarnation is zero: draw a random one each time a port is made")
	}
	if int(c.Mutation) >= len(mutations) {
		return fmt.Errorf("%w %d", errMutation, c.Mutation)
	}
	if c.QKey >= 1<<31 {
		return fmt.Errorf("qkey %#x: the highest bit makes a queue key privileged", c.QKey)
	}
	for _, err := range []error{
		within("peers", c.Peers, 1, maxPeers),
		within("slots", c.Slots, 1, maxSlots),
		within("window", c.Window, 1, maxWindow),
		within("longest message", c.MaxMessage, minMessage, hardMaxMessage),
		within("inline", c.Inline, 0, 1<<16),
		within("send depth", c.SendDepth, 2, 1<<16),
		within("tries", c.Tries, 1, 1<<16),
	} {
		if err != nil {
			return err
		}
	}
	if c.HealFirst <= 0 || c.HealMost < c.HealFirst {
		return fmt.Errorf("times of %v (first) and %v (most) between two tries to heal: they must ascend",
			c.HealFirst, c.HealMost)
	}
	if c.RTOMin <= 0 || c.RTOFirst < c.RTOMin || c.RTOMax < c.RTOFirst ||
		c.PeerTimeout/4 < c.RTOMax {
		return fmt.Errorf("timeouts of %v (least), %v (first), %v (most), %v (peer): they must "+
			"ascend, and the last be at least four times the one before", c.RTOMin, c.RTOFirst,
			c.RTOMax, c.PeerTimeout)
	}
	return nil
}
