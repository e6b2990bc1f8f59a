package service

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
)

// handClock is moved by hand.
type handClock struct{ now time.Time }

func (c *handClock) Now() time.Time { return c.now }

func (c *handClock) NewTicker(d time.Duration) *time.Ticker { return time.NewTicker(d) }

// line is what a line of a JSON log says.
type line struct {
	Level, Msg, Message, Node string
	Count                     int
}

func lines(t *testing.T, b *bytes.Buffer) []line {
	t.Helper()
	var all []line
	for _, text := range strings.Split(strings.TrimSpace(b.String()), "\n") {
		var l line
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		all = append(all, l)
	}
	b.Reset()
	return all
}

func TestLogTellsHowManyRepeatedMessagesItLeftOut(t *testing.T) {
	const repeated = 50
	for _, c := range []struct {
		name string
		then func(*zap.Logger, *handClock)
		want []line // after the first ones
	}{
		{"with the same message a second later",
			func(log *zap.Logger, clock *handClock) {
				clock.now = clock.now.Add(sampleTick)
				log.Warn("no way")
			},
			[]line{{Level: "warn", Msg: "repeated messages were left out", Message: "no way",
				Count: repeated - sampleFirst}, {Level: "warn", Msg: "no way", Node: "a"}}},
		{"with another one a second later",
			func(log *zap.Logger, clock *handClock) {
				clock.now = clock.now.Add(sampleTick)
				log.Info("a way")
				log.Info("on it")
			},
			[]line{{Level: "warn", Msg: "repeated messages were left out", Message: "no way",
				Count: repeated - sampleFirst}, {Level: "info", Msg: "a way", Node: "a"},
				{Level: "info", Msg: "on it", Node: "a"}}},
		{"not within the second", func(log *zap.Logger, _ *handClock) { log.Info("a way") },
			[]line{{Level: "info", Msg: "a way", Node: "a"}}},
		{"at the end", func(log *zap.Logger, _ *handClock) { _ = log.Sync() },
			[]line{{Level: "warn", Msg: "repeated messages were left out", Message: "no way",
				Count: repeated - sampleFirst}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var b bytes.Buffer
			log, _, err := NewLog(&b, "info", "json")
			if err != nil {
				t.Fatal(err)
			}
			clock := &handClock{time.Unix(1_700_000_000, 0)}
			log = log.WithOptions(zap.WithClock(clock)).With(zap.String("node", "a"))
			for range repeated {
				log.Warn("no way")
			}
			if got := lines(t, &b); len(got) != sampleFirst {
				t.Fatalf("%d of %d equal messages written, want %d", len(got), repeated, sampleFirst)
			}
			c.then(log, clock)
			got := lines(t, &b)
			if len(got) != len(c.want) {
				t.Fatalf("got %+v, want %+v", got, c.want)
			}
			for i := range got {
				if got[i] != c.want[i] {
					t.Errorf("line %d is %+v, want %+v", i, got[i], c.want[i])
				}
			}
		})
	}
}

func TestLogHasTheLevelAndFormatAskedFor(t *testing.T) {
	for _, c := range []struct{ name, level, format, want string }{
		{"json", "info", "json", `"msg":"seen"`},
		{"auto is json where there is no terminal", "info", "auto", `"msg":"seen"`},
		{"console", "debug", "console", "\tseen\n"},
		{"level above", "error", "json", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var b bytes.Buffer
			log, level, err := NewLog(&b, c.level, c.format)
			if err != nil {
				t.Fatal(err)
			}
			log.Warn("seen")
			if got := b.String(); !strings.Contains(got, c.want) || (got == "") != (c.want == "") {
				t.Errorf("wrote %q, want %q", got, c.want)
			}
			b.Reset()
			level.SetLevel(zap.WarnLevel)
			log.Warn("changed")
			log.Info("below")
			if got := b.String(); !strings.Contains(got, "changed") || strings.Contains(got, "below") {
				t.Errorf("after a change of level it wrote %q", got)
			}
		})
	}
	if _, _, err := NewLog(&bytes.Buffer{}, "loud", "json"); err == nil {
		t.Error("level loud was taken")
	}
}
