package node

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"drtmd/store/log"
	"drtmd/verbs"
	"drtmd/verbs/lines"
)

// The kept memory of a member (MemberConfig.Keep) has these names:
//
//	NAME            the tables of its own shard
//	NAME.S          the tables of its replica of shard S
//	NAME[.S].tT.E   extent E of table T, for tables that grow
//	NAME.logs       the logs of the other members' workers
const logsSuffix = ".logs"

// Left is what kept memory holds of an earlier life of a member.
type Left struct {
	Name string // MemberConfig.Keep
	// Regions of memory; 0: nothing was left.
	Regions int
	// Logs with complete records, which are Records together.
	Logs, Records int
	// Damaged logs end with a record that is not complete.
	Damaged int
	// Unread says why the logs could not be read; nil: they were, or there were none.
	Unread error
}

func (l *Left) String() string {
	s := fmt.Sprintf("kept memory %s: %d memory regions of an earlier life", l.Name, l.Regions)
	switch {
	case l.Unread != nil:
		return fmt.Sprintf("%s, whose logs cannot be read: %v", s, l.Unread)
	case l.Damaged > 0:
		return fmt.Sprintf("%s, with %d records in %d logs; %d logs end with a damaged record", s, l.Records,
			l.Logs, l.Damaged)
	}
	return fmt.Sprintf("%s, with %d records in %d logs", s, l.Records, l.Logs)
}

// checkKept refuses a device that keeps no memory.
func checkKept(dev *verbs.Context) error {
	if dev.Attr().Caps.KeptMRs {
		return nil
	}
	return &verbs.Error{Op: "keep memory", Device: dev.Attr().Name, Err: verbs.ErrUnsupported,
		Hint: "leave the name of kept memory out, or give the provider a folder to keep it in"}
}

// ErrNoKept: there is no memory of that name to attach to.
var ErrNoKept = errors.New("there is no kept memory")

// findKept refuses a name under which nothing was kept: it would be made, empty.
func findKept(p verbs.Provider, name string) error {
	all, err := keptBy(p)
	if err == nil && !slices.Contains(all, name) {
		err = fmt.Errorf("%w %s: it was removed, or the host has been started since", ErrNoKept, name)
	}
	return err
}

// keptBy lists what a provider keeps.
func keptBy(p verbs.Provider) ([]string, error) {
	store, ok := p.(verbs.KeptMemory)
	if !ok {
		return nil, fmt.Errorf("provider %s cannot list kept memory: %w", p.Name(), verbs.ErrUnsupported)
	}
	return store.Kept()
}

// giveUp reads what the logs of an earlier life hold in kept memory, and deletes all of that life's memory:
// the member begins with empty memory, whose size may be another one.
func giveUp(c *Config, p verbs.Provider, dev *verbs.Context, name string) (l Left, err error) {
	l.Name = name
	all, err := keptBy(p)
	if err != nil {
		return l, err
	}
	if slices.Contains(all, name+logsSuffix) {
		l.Unread = l.read(c, dev)
	}
	l.Regions, err = RemoveKept(p, name)
	return l, err
}

// RemoveKept deletes the memory that a member of that name has kept (MemberConfig.Keep), and says how many regions
// these were. It refuses memory that a process has open.
func RemoveKept(p verbs.Provider, name string) (regions int, err error) {
	all, err := keptBy(p)
	for _, n := range all {
		if n != name && !strings.HasPrefix(n, name+".") {
			continue
		}
		if err := p.(verbs.KeptMemory).RemoveKept(n); err != nil {
			return regions, fmt.Errorf("kept memory %s of an earlier life: %w", n, err)
		}
		regions++
	}
	return regions, err
}

// read counts the records in the logs.
func (l *Left) read(c *Config, dev *verbs.Context) (err error) {
	bytes, err := c.logBytes()
	if err != nil {
		return err
	}
	total := bytes * (c.Nodes - 1) * c.Workers
	if total == 0 {
		return errors.New("there are none in this configuration")
	}
	pd, err := dev.AllocPD()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, pd.Close()) }()
	o := lines.Options // as makeLogs has it
	o.Keep = l.Name + logsSuffix
	mr, err := pd.AllocMR(total, verbs.AccessAll, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, mr.Close()) }()
	for at := 0; at < total; at += bytes {
		ring, err := log.Open(mr.Bytes()[at:][:bytes:bytes])
		if err != nil {
			l.Damaged++
			continue
		}
		s, err := ring.Scan(func(*log.Record) error { return nil })
		if err != nil {
			return err
		}
		if s.Records > 0 {
			l.Logs, l.Records = l.Logs+1, l.Records+s.Records
		}
		if s.Damaged() {
			l.Damaged++
		}
	}
	return nil
}
