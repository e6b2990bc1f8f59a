package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"drtmd/cmd/drtmd/internal/bench"
	"drtmd/cmd/drtmd/internal/inventory"
	"drtmd/verbs"
)

func transports() []Transport {
	open := inventory.Device{DeviceInfo: verbs.DeviceInfo{
		DeviceAttr: verbs.DeviceAttr{Name: "rxe0", Provider: "ibv", Driver: "rxe", Ports: 1,
			FirmwareVer: "1.2", NodeGUID: 0x0002c90300a1b2c3, Atomic: verbs.AtomicHCA, MaxQP: 77,
			Caps: verbs.Caps{PollableChannel: true}},
		PortAttrs: []verbs.PortAttr{{Port: 1, State: verbs.PortActive, Link: verbs.LinkEthernet,
			ActiveMTU: 1024, MaxMTU: 4096, GRH: true, GIDs: []verbs.GIDEntry{
				{Index: 0, Type: verbs.GIDTypeRoCEv2, GID: verbs.GID{0: 0xfe, 1: 0x80, 15: 1}, NetDev: "eth0"},
				{Index: 1, Type: verbs.GIDTypeRoCEv2, NetDev: "eth0",
					GID: verbs.GID{10: 0xff, 11: 0xff, 12: 10, 13: 0, 14: 0, 15: 1}},
				{Index: 2, Type: verbs.GIDTypeRoCEv1}}}},
	}, Interfaces: []inventory.Interface{
		{Name: "eth0", Type: "device", Up: true, State: "up", MTU: 1500, Source: "rdmamap",
			Addresses: []string{"10.0.0.1/24"}},
		{Name: "eth1", Source: "gid table", Err: errors.New("link not found")}}}
	closed := inventory.Device{DeviceInfo: verbs.DeviceInfo{
		DeviceAttr: verbs.DeviceAttr{Name: "mlx5_0", Driver: "mlx5"},
		Err:        errors.New("no permission on /dev/infiniband/uverbs0")}}
	return []Transport{{Name: "ibv", Devices: []inventory.Device{open, closed}},
		{Name: "shm", Next: "do this"}}
}

func TestDevicesText(t *testing.T) {
	var b bytes.Buffer
	if err := Devices(&b, transports()); err != nil {
		t.Fatal(err)
	}
	want := `ibv: RDMA devices, hardware and Soft-RoCE, over libibverbs
  rxe0
    driver         rxe, firmware 1.2
    node GUID      0002:c903:00a1:b2c3
    atomic scope   ATOMIC_HCA, remote atomics exclude each other, not the CPU's
    limits         77 QPs, 0 requests in a queue, 0 SGEs, 0 B inline
                   0 CQs of 0 completions, 0 MRs of 0 B, messages of 0 B
                   0 PDs, 0 AHs, READs and atomics in flight: 0 issued, 0 served
    offers         the common verbs, pollable channels
    port 1         ACTIVE, Ethernet, active MTU 1024 B of at most 4096 B, GRH mandatory
                      GID index  type     address          interface
                              0  RoCE v2  fe80::1          eth0
                   *          1  RoCE v2  ::ffff:10.0.0.1  eth0
    interface      eth0, device, up, operational state up, MTU 1500 B, 10.0.0.1/24
    interface      eth1 (gid table): link not found
  mlx5_0
    driver         mlx5
    cannot open    no permission on /dev/infiniband/uverbs0

shm: the embedded default, shared memory between threads and processes of this host
  no RDMA device on this machine
  next: do this
`
	if got := b.String(); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

func TestDevicesJSON(t *testing.T) {
	var b bytes.Buffer
	if err := DevicesJSON(&b, transports()); err != nil {
		t.Fatal(err)
	}
	var doc devicesDoc
	if err := json.Unmarshal(b.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	d := doc.Transports[0].Devices
	if doc.Schema != DevicesSchema || d[0].Limits.QPs != 77 || d[0].Ports[0].GIDs[0].Chosen ||
		!d[0].Ports[0].GIDs[1].Chosen || d[1].Limits != nil || d[1].Error == "" {
		t.Errorf("%s", b.String())
	}
	if strings.Contains(b.String(), "null") {
		t.Errorf("an empty list is null:\n%s", b.String())
	}
}

func TestPerf(t *testing.T) {
	p := Perf{Date: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Transport: "shm", Device: "shm0",
		Driver: "shm", Iters: 5, ClockCostNs: 41.6, Interrupted: true,
		Peer: Peer{Address: "10.0.0.2:18600", Device: "shm0", Driver: "shm"}}
	for _, r := range []bench.Result{
		{Case: bench.Case{Op: bench.Read, Size: 64}, Latency: &bench.LatencyResult{
			Kind: bench.Completion, Samples: 5, Median: 1234, P99: 20000, P999: 3000000}},
		{Case: bench.Case{Op: bench.Datagram, Size: 8}, Inline: true, Rate: &bench.RateResult{
			PerSecond: 2e6, BytesPerSecond: 16e6, Lost: 3, Depth: 128, Batch: 16}},
	} {
		p.Rows = append(p.Rows, NewRow(r))
	}
	var b bytes.Buffer
	if err := p.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"peer 10.0.0.2:18600 with shm0 (driver shm)",
		"2026-01-02T03:04:05Z, 5 operations per measurement, rate with 128 requests outstanding " +
			"in batches of 16, one clock reading 42 ns",
		"read             64         1.23      20.00      3000.00        5  completion  " +
			"           -               -\n",
		"ud                8            -          -            -        -  -           " +
			"     2000000            16.0  inline, 3 datagrams lost\n",
		"interrupted: rows are missing\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in:\n%s", want, b.String())
		}
	}
	b.Reset()
	if err := p.WriteJSON(&b); err != nil {
		t.Fatal(err)
	}
	var again Perf
	if err := json.Unmarshal(b.Bytes(), &again); err != nil {
		t.Fatal(err)
	}
	if again.Schema != PerfSchema || len(again.Rows) != 2 || again.Rows[0].Latency.MedianNs != 1234 ||
		again.Rows[0].Rate != nil || again.Rows[1].Rate.Lost != 3 || !again.Interrupted {
		t.Errorf("%s", b.String())
	}
}

func TestMachine(t *testing.T) {
	m := ThisMachine()
	if m.CPUs < 1 || !strings.HasPrefix(m.Kernel, "Linux ") || !strings.HasPrefix(m.Build.Go, "go1.") {
		t.Errorf("%+v", m)
	}
	f := filepath.Join(t.TempDir(), "cpuinfo")
	info := "processor\t: 0\nmodel name\t:  Fast   CPU 9\n"
	if err := os.WriteFile(f, []byte(info), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := cpuModel(f); got != "Fast CPU 9" {
		t.Errorf("%q", got)
	}
	if got := cpuModel(f + "x"); got != "unknown CPU" {
		t.Errorf("%q", got)
	}
}
