package bench

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"
)

// TestSmallestBudgets: few operations, hardly any time, empty payloads and the shortest queues end,
// and count what they were asked for. What takes a tenth of the budget to warm up must not take
// nothing for no bound.
func TestSmallestBudgets(t *testing.T) {
	var budgets []Options
	for _, n := range []int{1, 2, 9, 10, 11} {
		budgets = append(budgets, Options{Iters: n})
	}
	for _, d := range []time.Duration{1, 9, 10, time.Microsecond} {
		budgets = append(budgets, Options{Duration: d}, Options{Duration: d, Iters: 5})
	}
	for _, o := range budgets {
		for _, depth := range []int{0, 1} {
			o.Depth, o.Inline, o.Sizes = depth, -1, []int{0, 1, 8}
			t.Run(fmt.Sprintf("iters %d, duration %s, depth %d", o.Iters, o.Duration, depth),
				func(t *testing.T) { endsSoon(t, o) })
		}
	}
}

func endsSoon(t *testing.T, o Options) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	a, b := stations(t)
	rows, err := Self(ctx, a, b, o, Progress{})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		if r.Latency.Samples < 1 || r.Rate.Messages < 1 {
			t.Errorf("%s: %d samples, %d messages", r.Case, r.Latency.Samples, r.Rate.Messages)
		}
		if n := int64(o.Iters); o.Duration == 0 &&
			(r.Latency.Samples != n || r.Rate.Messages != uint64(n)) {
			t.Errorf("%s: %d samples and %d messages, not %d", r.Case, r.Latency.Samples,
				r.Rate.Messages, n)
		}
	}
}

func TestNoBudgetIsRefused(t *testing.T) {
	for _, o := range []Options{{}, {Iters: -1}, {Duration: -1}, {Iters: 5, Duration: -1}} {
		a, b := stations(t)
		var limit *LimitError
		if _, err := Self(t.Context(), a, b, o, Progress{}); !errors.As(err, &limit) {
			t.Errorf("%d operations, %s: %v", o.Iters, o.Duration, err)
		}
	}
}

func TestWarmUpIsATenthOrNothing(t *testing.T) {
	for _, c := range []struct {
		b, want budget
		ok      bool
	}{
		{budget{iters: 9}, budget{}, false},
		{budget{iters: 10}, budget{iters: 1}, true},
		{budget{iters: 5000}, budget{iters: 100}, true},
		{budget{duration: 9}, budget{iters: 100}, false},
		{budget{duration: time.Second}, budget{100, time.Second / 10}, true},
		{budget{iters: 5, duration: time.Second}, budget{0, time.Second / 10}, false},
	} {
		if got, ok := c.b.warmUp(); ok != c.ok || ok && got != c.want {
			t.Errorf("%+v: %+v, %t", c.b, got, ok)
		}
	}
}
