package xenic_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"drtmd/internal/testkit/raceskip"
	"drtmd/proto"
	"drtmd/proto/check"
	"drtmd/proto/node"
	"drtmd/proto/option"
	"drtmd/proto/protocol"
	"drtmd/proto/workload"
	"drtmd/proto/workload/micro"
	"drtmd/proto/workload/smallbank"
	"drtmd/proto/workload/tpcc"
	"drtmd/proto/xenic"
	"drtmd/proto/xenic/nics"
	"drtmd/store/nicindex"
	"drtmd/verbs/fiber"
	"drtmd/verbs/sim"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// cluster is three nodes with three replicas, and micro on few records.
func cluster(t *testing.T, keys int, change func(*node.SimulatedConfig)) (*node.Cluster, error) {
	t.Helper()
	o := micro.Default(3)
	o.Keys = keys
	w, err := micro.New(o)
	if err != nil {
		t.Fatal(err)
	}
	c := node.SimulatedConfig{Config: node.Config{Protocol: xenic.Protocol(), Workload: w, Nodes: 3, Workers: 2, Fibers: 4,
		Replicas: 3, Record: &node.Recording{}, Options: option.Settings{}}}
	change(&c)
	return node.NewSimulated(context.Background(), c)
}

// load runs transactions, and gives what the check of the history says.
func load(t *testing.T, c *node.Cluster, each int) *check.Result {
	t.Helper()
	ctx := context.Background()
	var counts workload.Counts
	err := c.Start("client", 4, func(f *fiber.Fiber, w *node.Worker, i int) error {
		if w.Roles&protocol.Application == 0 {
			return nil
		}
		r := rand.New(rand.NewPCG(uint64(w.Node), uint64(4*w.Index+i)))
		left := each
		d := workload.Driver{Client: c.Config.Workload.NewClient(w.Node, r), Counts: &counts,
			Over: func() bool { left--; return left < 0 }, Runner: proto.Runner{Engine: w.Engine, Rand: r}}
		return d.Run(f)
	}).Wait(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if left, err := c.Settle(ctx); err != nil || left != (node.Unsettled{}) {
		t.Fatal(left, err)
	}
	if err := c.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := c.Audit(); err != nil {
		t.Error(err)
	}
	if tally := c.Verify(); tally.Wrong != "" {
		t.Error(tally.Wrong)
	}
	h, err := c.History()
	if err != nil {
		t.Fatal(err)
	}
	result, err := check.History(ctx, h, check.Options{UserAborts: true})
	if err = errors.Join(err, h.Close(), c.Close()); err != nil {
		t.Fatal(err)
	}
	return result
}

// TestEachSwitchLeavesItStrictlySerializable: each option off, little NIC memory, short logs, few cores, and late messages.
func TestEachSwitchLeavesItStrictlySerializable(t *testing.T) {
	raceskip.Simulated(t)
	for name, x := range map[string]struct {
		options option.Settings
		faults  string
	}{
		"everything on":      {},
		"without caching":    {options: option.Settings{xenic.OptCaching: "false"}},
		"without batching":   {options: option.Settings{xenic.OptBatching: "false"}},
		"separate requests":  {options: option.Settings{xenic.OptRequests: xenic.RequestsSeparate, xenic.OptDMA: xenic.DMABlocking}},
		"all at NICs":        {options: option.Settings{xenic.OptLocal: "false"}},
		"a core, short logs": {options: option.Settings{xenic.OptCores: "1", xenic.OptLogBytes: "4KiB"}},
		"D_m of one":         {options: option.Settings{protocol.OptDisplacement: "1"}},
		"late": {faults: "at 20us cut from=n0 to=n1 both=yes for=50us\nat 0ns delay-rc from=* to=n2 by=5us times=50\n" +
			"at 30us pause node=n1 for=100us"},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := cluster(t, 6, func(c *node.SimulatedConfig) { c.Options, c.Faults = x.options, x.faults })
			if err != nil {
				t.Fatal(err)
			}
			if result := load(t, c, 25); result.Verdict != check.Serializable {
				t.Error(result)
			}
		})
	}
}

// TestNewOrdersAreShipped: new orders of few districts, executed at the coordinator's NIC and at another one.
func TestNewOrdersAreShipped(t *testing.T) {
	raceskip.Simulated(t)
	c, err := cluster(t, 6, func(c *node.SimulatedConfig) {
		o := tpcc.Default(3)
		o.Items, o.Customers, o.Orders, o.Mix, o.RemoteItems = 100, 10, 1000, [5]int{100, 0, 0, 0, 0}, 5
		w, err := tpcc.New(o)
		if err != nil {
			t.Fatal(err)
		}
		c.Workload, c.Functions, c.Options[xenic.OptLocal] = w, tpcc.Spec().Functions, "false"
	})
	if err != nil {
		t.Fatal(err)
	}
	if result := load(t, c, 12); result.Verdict != check.Serializable {
		t.Error(result)
	}
}

// TestFunctionsAreShipped (§4.2.2, §4.2.3): SmallBank between nodes, executed by hosts, by the coordinator's NIC, or at the
// other primary; each way is taken, the sums hold, and the history is strictly serializable.
func TestFunctionsAreShipped(t *testing.T) {
	raceskip.Simulated(t)
	var hops, shipped [3]uint64
	for i, o := range []option.Settings{{xenic.OptShipping: xenic.ShipOff}, {xenic.OptMultiHop: "false"}, {}} {
		c, err := cluster(t, 6, func(c *node.SimulatedConfig) {
			spec := smallbank.Spec()
			w, _, err := spec.Make(3, option.Settings{"accounts": "40", "anywhere": "true"})
			if err != nil {
				t.Fatal(err)
			}
			c.Workload, c.Functions, c.Options = w, spec.Functions, o
		})
		if err != nil {
			t.Fatal(err)
		}
		chips := c.Workers()[0].Chips
		if result := load(t, c, 30); result.Verdict != check.Serializable {
			t.Errorf("%v: %v", o, result)
		}
		for _, x := range chips {
			s := x.(*xenic.Chip).Stats()
			hops[i] += s.MultiHop
			shipped[i] += s.Shipped
		}
	}
	if hops[0]+hops[1] != 0 || hops[2] == 0 || shipped[0] != 0 || shipped[1] == 0 {
		t.Errorf("executed at another primary: %d; at the coordinator: %d", hops, shipped)
	}
}

// TestLocalTransactionsSeeWhatIsTold (§4.2.4): what is read on the host was there at one moment, and nothing that was told
// before is missing, though it may wait in a log, or be on its way there. Without the NIC's comparison the check finds
// it.
func TestLocalTransactionsSeeWhatIsTold(t *testing.T) {
	raceskip.Simulated(t)
	for _, mutation := range []string{"", "xenic-local-read-validated-at-its-own-copy",
		"xenic-local-write-locked-without-version-check", "xenic-local-write-without-nic-lock"} {
		t.Run(mutation, func(t *testing.T) {
			for seed := range uint64(2) {
				p := xenic.Protocol()
				p.Mutations = []node.Mutation{{Name: mutation}}
				c, err := cluster(t, 4, func(c *node.SimulatedConfig) {
					c.Protocol, c.Mutation, c.Seed = p, mutation, seed+1
					c.Faults = "at 20us pause-worker node=n1 worker=0 for=60us\nat 90us pause-worker node=n2 worker=1 for=60us"
				})
				if err != nil {
					t.Fatal(err)
				}
				switch result := load(t, c, 40); {
				case mutation == "" && result.Verdict != check.Serializable:
					t.Errorf("seed %d: %v", seed, result)
				case mutation != "" && result.Verdict != check.Serializable:
					t.Logf("seed %d: %v", seed, result.Verdict)
					return
				}
			}
			if mutation != "" {
				t.Error("it is not found")
			}
		})
	}
}

// TestThreadsHaveTheirRoles (§4.2, §5.6): application threads run transactions and apply nothing, Robinhood workers apply
// logs and run nothing, and by default each worker does both.
func TestThreadsHaveTheirRoles(t *testing.T) {
	raceskip.Simulated(t)
	for _, x := range []struct {
		workers                  int
		applications, robinhoods string
		roles                    []protocol.Roles
	}{
		{3, "1", "2", []protocol.Roles{protocol.Application, protocol.Robinhood, protocol.Robinhood}},
		{3, "2", "2", []protocol.Roles{protocol.Application, protocol.Application | protocol.Robinhood, protocol.Robinhood}},
		{2, "0", "0", []protocol.Roles{protocol.Application | protocol.Robinhood, protocol.Application | protocol.Robinhood}},
		{3, "0", "0", []protocol.Roles{protocol.Application | protocol.Robinhood, protocol.Application | protocol.Robinhood,
			protocol.Application}}, // two cores, so two logs
	} {
		c, err := cluster(t, 6, func(c *node.SimulatedConfig) {
			c.Workers, c.Options = x.workers, option.Settings{xenic.OptApplications: x.applications,
				xenic.OptRobinhoods: x.robinhoods, xenic.OptCores: "2"}
		})
		if err != nil {
			t.Fatal(err)
		}
		workers := c.Workers()
		err = c.Start("stranger", 1, func(f *fiber.Fiber, w *node.Worker, _ int) error {
			if w.Roles&protocol.Application != 0 {
				return nil
			}
			if _, err := w.Engine.Begin(f, &proto.Decl{Kind: 1}, 0); !errors.Is(err, xenic.ErrRole) {
				t.Errorf("worker %d runs a transaction: %v", w.Index, err)
			}
			return nil
		}).Wait(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if result := load(t, c, 25); result.Verdict != check.Serializable {
			t.Error(result)
		}
		cores := uint64(0)
		for _, w := range workers {
			did, nic := w.Engine.(*xenic.Engine).RoleStats()
			runs, applies := w.Roles&protocol.Application != 0, w.Roles&protocol.Robinhood != 0
			if w.Roles != x.roles[w.Index] || runs != (did.Committed > 0) || applies != (did.LogRecords > 0 && did.Updates > 0) ||
				did.BusyPs == 0 {
				t.Errorf("worker %d of %d is %q and did %+v", w.Index, x.workers, w.Roles, did)
			}
			if cores += nic.Committed; w.Index == 0 && (nic.Requests == 0 || nic.BusyPs == 0) {
				t.Errorf("the NIC of node %d did %+v", w.Node, nic)
			}
		}
		if cores == 0 {
			t.Error("NICs have committed nothing")
		}
	}
}

// TestNICsCountWhatIsCommitted: as many transactions as the threads of their hosts, without those that programs roll back, on
// the host, at the coordinator's NIC and at another one.
func TestNICsCountWhatIsCommitted(t *testing.T) {
	raceskip.Simulated(t)
	for _, shipping := range []string{xenic.ShipOff, xenic.ShipDeclared} {
		c, err := cluster(t, 6, func(c *node.SimulatedConfig) {
			spec := smallbank.Spec()
			w, _, err := spec.Make(3, option.Settings{"accounts": "40"})
			if err != nil {
				t.Fatal(err)
			}
			c.Workload, c.Functions, c.Options[xenic.OptShipping] = w, spec.Functions, shipping
		})
		if err != nil {
			t.Fatal(err)
		}
		workers := c.Workers()
		if result := load(t, c, 40); result.Verdict != check.Serializable {
			t.Error(result)
		}
		var told, counted [3]uint64
		rolledBack := uint64(0)
		for _, w := range workers {
			did, nic := w.Engine.(*xenic.Engine).RoleStats()
			told[w.Node] += did.Committed
			counted[w.Node] += nic.Committed
			rolledBack += w.Engine.Stats().RolledBack
		}
		if told != counted || rolledBack == 0 {
			t.Errorf("shipping %s: hosts committed %d, NICs %d; %d were rolled back", shipping, told, counted, rolledBack)
		}
	}
}

// TestWhatCannotBeIsRefusedInWords.
func TestWhatCannotBeIsRefusedInWords(t *testing.T) {
	plain, err := sim.Preset(sim.DefaultPreset)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		what   string
		change func(*node.SimulatedConfig)
		want   error
		says   string
	}{
		{"too little NIC memory", func(c *node.SimulatedConfig) { c.Options[xenic.OptMemory] = "1KiB" }, nicindex.ErrBudget,
			"--nic-memory 1KiB"},
		{"more NIC memory than there is", func(c *node.SimulatedConfig) { c.Options[xenic.OptMemory] = "1000GiB" },
			sim.ErrNICMemory, "in use"},
		{"too many cores", func(c *node.SimulatedConfig) { c.Options[xenic.OptCores] = "25" }, xenic.ErrConfig,
			"the NIC has 24 cores"},
		{"no cores", func(c *node.SimulatedConfig) { c.Cost = plain }, protocol.ErrNeeds, "cx5-100g"},
		{"more application threads than workers", func(c *node.SimulatedConfig) { c.Options[xenic.OptApplications] = "3" },
			xenic.ErrConfig, "--application-threads 3: each is a worker, and a node has 2"},
		{"more Robinhood workers than workers", func(c *node.SimulatedConfig) { c.Options[xenic.OptRobinhoods] = "3" },
			xenic.ErrConfig, "--robinhood-workers 3: each is a worker, and a node has 2"},
		{"more Robinhood workers than logs", func(c *node.SimulatedConfig) {
			c.Options[xenic.OptRobinhoods], c.Options[xenic.OptCores] = "2", "1"
		}, xenic.ErrConfig, "each Robinhood worker applies at least one"},
		{"workers without a role", func(c *node.SimulatedConfig) {
			c.Workers, c.Options[xenic.OptApplications], c.Options[xenic.OptRobinhoods] = 5, "1", "2"
		}, xenic.ErrConfig, "leave 2 of 5 workers with nothing to do: use --workers 3"},
		{"workers without a log", func(c *node.SimulatedConfig) {
			c.Workers, c.Options[xenic.OptApplications], c.Options[xenic.OptCores] = 5, "2", "3"
		}, xenic.ErrConfig, "leave 2 of 5 workers with nothing to do, since each core has one log: use --workers 3"},
		{"functions of a workload without", func(c *node.SimulatedConfig) { c.Options[xenic.OptShipping] = xenic.ShipOn },
			xenic.ErrConfig, "the workload declares no functions"},
		{"a D_m of zero", func(c *node.SimulatedConfig) { c.Options[protocol.OptDisplacement] = "0" }, nil,
			protocol.OptDisplacement},
		{"a D_m that no table has", func(c *node.SimulatedConfig) { c.Options[protocol.OptDisplacement] = "100000" }, nil,
			protocol.OptDisplacement},
	} {
		c, err := cluster(t, 6, x.change)
		if err == nil {
			err = errors.Join(errors.New("it is made"), c.Close())
		}
		if x.want != nil && !errors.Is(err, x.want) || !strings.Contains(err.Error(), x.says) {
			t.Errorf("%s: %v", x.what, err)
		}
	}
}

// TestRecordsThatFitIntoNoMessageTakeSeveralRounds, as those of TPC-C's stock-level do with all its items.
func TestRecordsThatFitIntoNoMessageTakeSeveralRounds(t *testing.T) {
	c, err := cluster(t, 6, func(c *node.SimulatedConfig) {
		o := micro.Default(3)
		o.Keys, o.ValueBytes = 100, 1000
		w, err := micro.New(o)
		if err != nil {
			t.Fatal(err)
		}
		c.Workload = w
	})
	if err != nil {
		t.Fatal(err)
	}
	d := &proto.Decl{Kind: 1}
	err = c.Config.Workload.Load(1, func(t proto.TableID, k proto.Key, _ []byte) error {
		d.Accesses = append(d.Accesses, proto.Access{Table: t, Key: k, Mode: proto.ModeRead})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if bytes := len(d.Accesses) * nics.RecordBytes(1000); bytes <= nics.MostBytes {
		t.Fatalf("%d records have %d bytes", len(d.Accesses), bytes)
	}
	err = c.Start("client", 1, func(f *fiber.Fiber, w *node.Worker, _ int) error {
		if w.Node != 0 || w.Index != 0 {
			return nil
		}
		tx, err := w.Engine.Begin(f, d, 0)
		if err != nil {
			return err
		}
		return tx.Commit()
	}).Wait(context.Background())
	if err = errors.Join(err, c.Close()); err != nil {
		t.Fatal(err)
	}
}

// TestATransactionThatFitsIntoNoLogIsRefusedInWords, and leaves no lock.
func TestATransactionThatFitsIntoNoLogIsRefusedInWords(t *testing.T) {
	c, err := cluster(t, 200, func(c *node.SimulatedConfig) { c.Options[xenic.OptLogBytes] = "4KiB" })
	if err != nil {
		t.Fatal(err)
	}
	d := &proto.Decl{Kind: 1}
	specs := c.Config.Workload.Tables()
	for n := range c.Members {
		err := c.Config.Workload.Load(proto.NodeID(n), func(t proto.TableID, k proto.Key, _ []byte) error {
			d.Accesses = append(d.Accesses, proto.Access{Table: t, Key: k, Mode: proto.ModeWrite})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	all := d.Accesses
	err = c.Start("client", 1, func(f *fiber.Fiber, w *node.Worker, _ int) error {
		if w.Node != 0 || w.Index != 0 {
			return nil
		}
		for _, n := range []int{len(all), 300} {
			d.Accesses = all[:min(n, len(all))]
			tx, err := w.Engine.Begin(f, d, 0)
			if err == nil { // those of its own shard it reads itself
				for _, a := range d.Accesses {
					if err := tx.Write(a.Table, a.Key, make([]byte, specs[a.Table-1].ValueBytes)); err != nil {
						return err
					}
				}
				err = tx.Commit()
			}
			if err == nil || !strings.Contains(err.Error(), "split ") {
				t.Errorf("%d records: %v", n, err)
			}
		}
		d.Accesses = slices.Clone(all[:1])
		tx, err := w.Engine.Begin(f, d, 0)
		if err != nil {
			return err
		}
		a := all[0]
		if err := tx.Write(a.Table, a.Key, make([]byte, specs[a.Table-1].ValueBytes)); err != nil {
			return err
		}
		return tx.Commit()
	}).Wait(context.Background())
	if err = errors.Join(err, c.Close()); err != nil {
		t.Fatal(err)
	}
}
