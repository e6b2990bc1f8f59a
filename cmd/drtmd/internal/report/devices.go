package report

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"drtmd/cmd/drtmd/internal/inventory"
	"drtmd/verbs"
)

// DevicesSchema of the JSON document.
const DevicesSchema = "drtmd.devices/1"

// Transport is what one provider has.
type Transport struct {
	Name    string
	Devices []inventory.Device
	Err     error // why there is nothing, or not all
	Next    string
}

// Devices prints the transports for people.
func Devices(w io.Writer, transports []Transport) error {
	var b strings.Builder
	for i, t := range transports {
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "%s: %s\n", t.Name, about[t.Name])
		if t.Err != nil {
			fmt.Fprintf(&b, "  %s\n", t.Err)
		}
		if len(t.Devices) == 0 && t.Err == nil {
			b.WriteString("  no RDMA device on this machine\n")
		}
		if t.Next != "" {
			fmt.Fprintf(&b, "  next: %s\n", t.Next)
		}
		for _, d := range t.Devices {
			if err := device(&b, d); err != nil {
				return err
			}
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// about says what a transport is.
var about = map[string]string{
	"shm": "the embedded default, shared memory between threads and processes of this host",
	"ibv": "RDMA devices, hardware and Soft-RoCE, over libibverbs",
}

func device(b *strings.Builder, d inventory.Device) error {
	fmt.Fprintf(b, "  %s\n", d.Name)
	line := func(name, format string, args ...any) {
		fmt.Fprintf(b, "    %-14s %s\n", name, fmt.Sprintf(format, args...))
	}
	line("driver", "%s%s", d.Driver, firmware(d.FirmwareVer))
	if d.Err != nil {
		line("cannot open", "%s", d.Err)
	}
	if d.Ports > 0 {
		if d.NodeGUID != 0 {
			line("node GUID", "%s", guid(d.NodeGUID))
		}
		line("atomic scope", "%s, %s", d.Atomic, scopes[d.Atomic])
		line("limits", "%d QPs, %d requests in a queue, %d SGEs, %d B inline", d.MaxQP, d.MaxQPWR,
			d.MaxSGE, d.MaxInline)
		line("", "%d CQs of %d completions, %d MRs of %d B, messages of %d B", d.MaxCQ, d.MaxCQE,
			d.MaxMR, d.MaxMRBytes, d.MaxMsgBytes)
		line("", "%d PDs, %d AHs, READs and atomics in flight: %d issued, %d served", d.MaxPD,
			d.MaxAH, d.MaxInitDepth, d.MaxRdAtomic)
		line("offers", "%s", offers(d.Caps))
	}
	for _, p := range d.PortAttrs {
		if err := port(b, line, p); err != nil {
			return err
		}
	}
	for _, i := range d.Interfaces {
		line("interface", "%s", netInterface(i))
	}
	return nil
}

var scopes = map[verbs.AtomicScope]string{
	verbs.AtomicNone: "no remote atomics",
	verbs.AtomicHCA:  "remote atomics exclude each other, not the CPU's",
	verbs.AtomicGlob: "remote atomics exclude the CPU's too",
}

func firmware(v string) string {
	if v == "" {
		return ""
	}
	return ", firmware " + v
}

// guid in the notation of ibv_devinfo.
func guid(g uint64) string {
	return fmt.Sprintf("%04x:%04x:%04x:%04x", g>>48, g>>32&0xffff, g>>16&0xffff, g&0xffff)
}

func offers(c verbs.Caps) string {
	var s []string
	for _, o := range capList(c) {
		if o.has {
			s = append(s, o.name)
		}
	}
	if len(s) == 0 {
		return "the common verbs"
	}
	return "the common verbs, " + strings.Join(s, ", ")
}

type capability struct {
	name string
	has  bool
}

func capList(c verbs.Caps) []capability {
	return []capability{{"line words", c.LineWords}, {"ascending writes", c.AscendingWrites},
		{"kept memory", c.KeptMRs},
		{"pollable channels", c.PollableChannel}}
}

func port(b *strings.Builder, line func(string, string, ...any), p verbs.PortAttr) error {
	grh := ""
	if p.GRH {
		grh = ", GRH mandatory"
	}
	if p.Link == verbs.LinkInfiniBand {
		grh += fmt.Sprintf(", LID %d", p.LID)
	}
	line(fmt.Sprintf("port %d", p.Port), "%s, %s, active MTU %d B of at most %d B%s", p.State,
		p.Link, p.ActiveMTU, p.MaxMTU, grh)
	chosen, ok := verbs.ChooseGID(p.GIDs)
	t := newTable("", ">GID index", "type", "address", "interface")
	for _, e := range p.GIDs {
		if e.GID.IsZero() {
			continue
		}
		mark, address := "", e.GID.String()
		if ok && e.Index == chosen.Index {
			mark = "*"
		}
		if e.Type == verbs.GIDTypeMemory {
			address += " (each open context has its own)"
		}
		t.row(mark, fmt.Sprint(e.Index), e.Type.String(), address, e.NetDev)
	}
	if len(t.rows) == 1 {
		line("", "no GID")
		return nil
	}
	return t.write(b, strings.Repeat(" ", 19))
}

func netInterface(i inventory.Interface) string {
	if i.Err != nil {
		return fmt.Sprintf("%s (%s): %s", i.Name, i.Source, i.Err)
	}
	up := "down"
	if i.Up {
		up = "up"
	}
	s := fmt.Sprintf("%s, %s, %s, operational state %s, MTU %d B", i.Name, i.Type, up, i.State,
		i.MTU)
	if len(i.Addresses) == 0 {
		return s + ", no address"
	}
	return s + ", " + strings.Join(i.Addresses, " ")
}

// DevicesJSON prints the transports for programs.
func DevicesJSON(w io.Writer, transports []Transport) error {
	doc := devicesDoc{Schema: DevicesSchema, Transports: []transportDoc{}}
	for _, t := range transports {
		td := transportDoc{Name: t.Name, Error: text(t.Err), Next: t.Next, Devices: []deviceDoc{}}
		for _, d := range t.Devices {
			td.Devices = append(td.Devices, newDeviceDoc(d))
		}
		doc.Transports = append(doc.Transports, td)
	}
	return writeJSON(w, doc)
}

func writeJSON(w io.Writer, doc any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(doc)
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
