package report

import (
	"drtmd/cmd/drtmd/internal/inventory"
	"drtmd/verbs"
)

type devicesDoc struct {
	Schema     string         `json:"schema"`
	Transports []transportDoc `json:"transports"`
}

type transportDoc struct {
	Name    string      `json:"name"`
	Error   string      `json:"error,omitempty"`
	Next    string      `json:"next,omitempty"`
	Devices []deviceDoc `json:"devices"`
}

type deviceDoc struct {
	Name       string         `json:"name"`
	Driver     string         `json:"driver"`
	Error      string         `json:"error,omitempty"`
	Firmware   string         `json:"firmware,omitempty"`
	NodeGUID   string         `json:"node_guid,omitempty"`
	Atomic     string         `json:"atomic_scope,omitempty"`
	Offers     []string       `json:"offers"`
	Limits     *limitsDoc     `json:"limits,omitempty"`
	Ports      []portDoc      `json:"ports"`
	Interfaces []interfaceDoc `json:"interfaces"`
}

type limitsDoc struct {
	QPs           int    `json:"qps"`
	QueueRequests int    `json:"queue_requests"`
	SGEs          int    `json:"sges"`
	InlineBytes   int    `json:"inline_bytes"`
	CQs           int    `json:"cqs"`
	CQCompletions int    `json:"cq_completions"`
	MRs           int    `json:"mrs"`
	MRBytes       uint64 `json:"mr_bytes"`
	MessageBytes  uint32 `json:"message_bytes"`
	PDs           int    `json:"pds"`
	AHs           int    `json:"ahs"`
	ReadsIssued   int    `json:"reads_in_flight_issued"`
	ReadsServed   int    `json:"reads_in_flight_served"`
}

type portDoc struct {
	Port      int      `json:"port"`
	State     string   `json:"state"`
	Link      string   `json:"link_layer"`
	ActiveMTU int      `json:"active_mtu_bytes"`
	MaxMTU    int      `json:"max_mtu_bytes"`
	LID       uint16   `json:"lid"`
	GRH       bool     `json:"grh_mandatory"`
	GIDs      []gidDoc `json:"gids"`
}

type gidDoc struct {
	Index     int    `json:"index"`
	Type      string `json:"type"`
	Address   string `json:"address"`
	Interface string `json:"interface,omitempty"`
	Chosen    bool   `json:"chosen"`
}

type interfaceDoc struct {
	Name      string   `json:"name"`
	Source    string   `json:"source"`
	Error     string   `json:"error,omitempty"`
	Type      string   `json:"type,omitempty"`
	Up        bool     `json:"up"`
	State     string   `json:"operational_state,omitempty"`
	MTU       int      `json:"mtu_bytes,omitempty"`
	Hardware  string   `json:"hardware_address,omitempty"`
	Addresses []string `json:"addresses"`
}

func newDeviceDoc(d inventory.Device) deviceDoc {
	doc := deviceDoc{Name: d.Name, Driver: d.Driver, Error: text(d.Err), Firmware: d.FirmwareVer,
		Offers: []string{}, Ports: []portDoc{}, Interfaces: []interfaceDoc{}}
	if d.Ports > 0 {
		doc.NodeGUID, doc.Atomic = guid(d.NodeGUID), d.Atomic.String()
		doc.Limits = &limitsDoc{QPs: d.MaxQP, QueueRequests: d.MaxQPWR, SGEs: d.MaxSGE,
			InlineBytes: d.MaxInline, CQs: d.MaxCQ, CQCompletions: d.MaxCQE, MRs: d.MaxMR,
			MRBytes: d.MaxMRBytes, MessageBytes: d.MaxMsgBytes, PDs: d.MaxPD, AHs: d.MaxAH,
			ReadsIssued: d.MaxInitDepth, ReadsServed: d.MaxRdAtomic}
	}
	for _, c := range capList(d.Caps) {
		if c.has {
			doc.Offers = append(doc.Offers, c.name)
		}
	}
	for _, p := range d.PortAttrs {
		doc.Ports = append(doc.Ports, newPortDoc(p))
	}
	for _, i := range d.Interfaces {
		doc.Interfaces = append(doc.Interfaces, interfaceDoc{Name: i.Name, Source: i.Source,
			Error: text(i.Err), Type: i.Type, Up: i.Up, State: i.State, MTU: i.MTU,
			Hardware: i.HardwareAddr, Addresses: append([]string{}, i.Addresses...)})
	}
	return doc
}

func newPortDoc(p verbs.PortAttr) portDoc {
	doc := portDoc{Port: p.Port, State: p.State.String(), Link: p.Link.String(),
		ActiveMTU: p.ActiveMTU, MaxMTU: p.MaxMTU, LID: p.LID, GRH: p.GRH, GIDs: []gidDoc{}}
	chosen, ok := verbs.ChooseGID(p.GIDs)
	for _, e := range p.GIDs {
		doc.GIDs = append(doc.GIDs, gidDoc{Index: e.Index, Type: e.Type.String(),
			Address: e.GID.String(), Interface: e.NetDev, Chosen: ok && e.Index == chosen.Index})
	}
	return doc
}
