package check

import (
	"context"

	"drtmd/proto/history"
)

// History checks a history. The error is that of reading it, ctx's, or ErrTooLarge; that the
// history is not strictly serializable is no error but a Result.
func History(ctx context.Context, h *history.History, o Options) (*Result, error) {
	c := &checker{ctx: ctx, options: o, history: h, names: h.Names(), nodes: h.Nodes()}
	c.counting = h.Versions() == history.Counting
	c.findClocks()
	if err := c.run(); err != nil {
		return nil, err
	}
	return &c.result, nil
}

func (c *checker) run() error {
	if err := c.load(); err != nil {
		return err
	}
	c.result.CountedVersions = c.counting
	if err := c.sort(); err != nil {
		return err
	}
	err := c.decide()
	for _, in := range c.inGraph {
		if in {
			c.result.Checked++
		}
	}
	return err
}

// variants are how many of several unknown writers of the same are taken in turn.
const variants = 4

// decide looks for an order. Where a guess has led to a violation it guesses again in other ways: that
// absences are those of a reader's end, as they are with a protocol that confirms them there; and that what
// several unknown transactions wrote alike is the next one's.
func (c *checker) decide() error {
	before := c.result
	var first Result
	writers := false // a writer was guessed
	for c.variant = 0; c.variant < variants && (c.variant == 0 || writers); c.variant++ {
		for _, c.late = range [...]bool{false, true} {
			c.result = before
			c.choices, c.recount, c.guessed, c.guessedWriter = nil, nil, false, false
			c.admit()
			if err := c.tryPlaces(); err != nil || c.result.Verdict != Undecided {
				return err
			}
			if first.Verdict == 0 {
				first = c.result
			}
			writers = writers || c.guessedWriter
		}
	}
	c.result = first
	return nil
}

// tryPlaces looks for a cycle, and for a place for every absence. Choices that are forced by the
// edges before them prove as much as those; after a guess a violation proves nothing.
func (c *checker) tryPlaces() error {
	c.result.Verdict = Undecided
	for attempt := range attempts {
		if attempt == 0 || len(c.recount) > 0 {
			if err := c.census(); err != nil || len(c.result.Violations) > 0 {
				return err
			}
		}
		if err := c.build(); err != nil {
			return err
		}
		if err := c.connect(); err != nil {
			return err
		}
		if len(c.components) > 0 {
			return c.reportCycle()
		}
		strays, ambiguous, err := c.strays()
		if err != nil {
			return err
		}
		c.result.PlacedAbsences = ambiguous + uint64(len(c.choices))
		c.result.UnplacedAbsences = uint64(len(strays))
		if len(strays) == 0 {
			c.result.Verdict = Serializable
			return nil
		}
		if err := c.settle(strays); err != nil {
			return err
		}
	}
	return nil
}

// census finds out who counts, and reports what single operations prove. If there is any of
// that, the order of versions is in doubt and a cycle would say no more.
func (c *checker) census() error {
	if err := c.observe(); err != nil {
		return err
	}
	if err := c.verify(); err != nil {
		return err
	}
	if len(c.result.Violations) > 0 {
		c.result.Verdict = c.violated()
	}
	c.chains = nil
	return nil
}

// violated is the verdict when there are violations: after a guess they prove nothing.
func (c *checker) violated() Verdict {
	if c.guessed {
		return Undecided
	}
	return Violated
}

func (c *checker) reportCycle() error {
	cycle, err := c.shortest()
	if err != nil {
		return err
	}
	v, err := c.explain(cycle)
	if err != nil {
		return err
	}
	c.result.Verdict = c.violated()
	c.add(v)
	return nil
}

// maxViolations bounds how many are described; all are counted.
const maxViolations = 16

// report describes a violation that single operations prove.
func (c *checker) report(a Anomaly, o, other *op) {
	if c.enough(a) {
		return
	}
	c.add(c.describe(a, o, other))
}

// reportGap describes that a write must have been between a key's standing and its next write.
func (c *checker) reportGap(w *op, last standing) {
	if c.enough(LostWrite) {
		return
	}
	c.add(c.describeGap(w, last))
}

// reportFinal describes a key whose final content is not how it stands after the last write.
func (c *checker) reportFinal(a Anomaly, key uint32, f content, last standing) {
	if c.enough(a) {
		return
	}
	c.add(c.describeFinal(a, key, f, last))
}

// enough counts a violation that is not described any more.
func (c *checker) enough(a Anomaly) bool {
	if len(c.result.Violations) < maxViolations || c.tally(a) == 0 {
		return false
	}
	c.count(a)
	return true
}

func (c *checker) add(v Violation) {
	c.count(v.Anomaly)
	c.result.Violations = append(c.result.Violations, v)
}

func (c *checker) count(a Anomaly) {
	for i := range c.result.Tallies {
		if c.result.Tallies[i].Anomaly == a {
			c.result.Tallies[i].Count++
			return
		}
	}
	c.result.Tallies = append(c.result.Tallies, Tally{a, 1})
}

// tally gives how many violations of a kind there are.
func (c *checker) tally(a Anomaly) uint64 {
	for _, t := range c.result.Tallies {
		if t.Anomaly == a {
			return t.Count
		}
	}
	return 0
}
