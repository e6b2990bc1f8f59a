package cli

import (
	"encoding/json"
	"fmt"
	"text/tabwriter"

	"drtmd/verbs/scenario"
)

var (
	saturationBytes   = []int{8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192}
	saturationBatches = []int{1, 2, 4, 8, 16, 32, 64}
)

// saturationDocument is the JSON of the tables.
type saturationDocument struct {
	Schema    string        `json:"schema"`
	Scenario  string        `json:"scenario"`
	CostModel string        `json:"cost_model"`
	Modelled  bool          `json:"modelled"` // always true: no figure of it was measured
	Reads     []simReadRow  `json:"reads"`
	Batches   []simBatchRow `json:"batches"`
	RPCs      []simRPCRow   `json:"rpcs"`
}

type simReadRow struct {
	Bytes int     `json:"payload_bytes"`
	Mops  float64 `json:"million_per_second"`
	Gbps  float64 `json:"payload_gigabits_per_second"`
}

type simBatchRow struct {
	Batch   int     `json:"messages_per_datagram"`
	Mops    float64 `json:"million_gets_per_second"`
	Speedup float64 `json:"speedup"`
}

type simRPCRow struct {
	Batching    bool    `json:"batching"`
	Mops        float64 `json:"million_per_second"`
	PerDatagram float64 `json:"messages_per_datagram"`
}

// saturation prints what the cost model gives.
func (r *simRun) saturation() error {
	cost := r.options.Cost
	reads, err := scenario.Reads(cost, saturationBytes)
	if err != nil {
		return err
	}
	var batches []int
	for _, b := range saturationBatches {
		if b <= scenario.MostBatch(cost) {
			batches = append(batches, b)
		}
	}
	gets, err := scenario.Batches(cost, batches)
	if err != nil {
		return err
	}
	rpcs, err := scenario.RPCs(cost)
	if err != nil {
		return err
	}
	if r.flags.json {
		d := saturationDocument{Schema: SimSchema, Scenario: saturationName, CostModel: cost.Name,
			Modelled: true}
		for _, x := range reads {
			d.Reads = append(d.Reads, simReadRow(x))
		}
		for _, x := range gets {
			d.Batches = append(d.Batches, simBatchRow{x.Batch, x.Mops, x.Speedup})
		}
		for _, x := range rpcs {
			d.RPCs = append(d.RPCs, simRPCRow(x))
		}
		enc := json.NewEncoder(r.stdout)
		enc.SetIndent("", "  ")
		return enc.Encode(d)
	}
	fmt.Fprintf(r.stdout, "cost model %s; every figure is modelled, none was measured\n\n", cost.Name)
	fmt.Fprintf(r.stdout, "READs from %d nodes to one:\n\n", scenario.ReadClients)
	w := tabwriter.NewWriter(r.stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "payload\tMops\tGb/s of payload\t")
	for _, x := range reads {
		fmt.Fprintf(w, "%d B\t%.2f\t%.2f\t\n", x.Bytes, x.Mops, x.Gbps)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprint(r.stdout, "\nGets of 24 B over datagrams to one server, without CPU time:\n\n")
	fmt.Fprintln(w, "in one datagram\tM Gets/s\tspeed-up\t")
	for _, x := range gets {
		fmt.Fprintf(w, "%d\t%.1f\t%.2fx\t\n", x.Batch, x.Mops, x.Speedup)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprint(r.stdout, "\nRPCs of 8 B answered with 16 B by one worker, with its CPU time:\n\n")
	fmt.Fprintln(w, "batching\tM/s\tmessages in a datagram\t")
	for _, x := range rpcs {
		fmt.Fprintf(w, "%s\t%.2f\t%.1f\t\n", onOff(x.Batching), x.Mops, x.PerDatagram)
	}
	return w.Flush()
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}
