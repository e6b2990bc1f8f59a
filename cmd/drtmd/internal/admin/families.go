package admin

import "github.com/prometheus/client_golang/prometheus"

// prefix of the daemon's own metrics.
const prefix = "drtmd_"

// spec describes a metric. docs/METRICS.md is generated from the specs.
type spec struct {
	name   string // without the prefix
	help   string
	kind   prometheus.ValueType
	labels []string
}

// Kinds of metrics.
const (
	counter = prometheus.CounterValue
	gauge   = prometheus.GaugeValue
)

// specs are all metrics of a node but the histogram.
func specs() []spec {
	protocol, table := []string{"protocol"}, []string{"table"}
	return []spec{
		{"build_info", "Always 1; the label is the build.", gauge, []string{"build"}},
		{"ready", "1 while the node serves.", gauge, nil},
		{"epoch", "Active epoch, as the node knows it.", gauge, nil},
		{"members", "Members of the active epoch.", gauge, nil},
		{"incarnation", "Incarnation of the node.", gauge, []string{"node"}},
		{"membership_lease_left_seconds",
			"Time until the membership lease ends; at most 0 after its end.", gauge, nil},
		{"membership_lease_seconds", "Length of the membership lease.", gauge, nil},
		{"certificate_expiry_timestamp_seconds",
			"When the node's certificate ends; absent without TLS.", gauge, nil},

		{"plane_up", "1 while a data plane is in service and its workers answered this scrape. " +
			"All metrics below are absent while it is 0.", gauge, nil},
		{"plane_generation", "Number of data planes that this process has opened. " +
			"All counters start at 0 in each.", gauge, nil},
		{"shard_map_version", "Version of the data plane's shard map.", gauge, nil},
		{"plane_info", "Always 1; the labels are the data plane's workload and protocol.", gauge,
			[]string{"workload", "protocol"}},
		{"plane_fenced", "1 if the data plane was taken out of service.", gauge, nil},
		{"clock_error_seconds", "Present bound on the error of the data plane's clock.", gauge, nil},
		{"read_lease_seconds", "Usual duration of read leases; absent if the protocol has none.",
			gauge, []string{"transactions"}},
		{"workers", "Workers of the data plane.", gauge, nil},
		{"orphaned_records", "Orphaned records that this node has met: they stay locked.", gauge, nil},
		{"troubled_workers", "Workers that have met what no correct node does, such as a damaged log.", gauge, nil},
		{"replicas", "Replicas of shards on the node, by role; absent, like all of recovery, if records have one " +
			"replica.", gauge, []string{"role"}},
		{"recovery_running", "1 while transactions of nodes that are gone are decided, and backups promoted.",
			gauge, nil},
		{"recovery_failed", "1 if that has failed.", gauge, nil},
		{"recovery_seconds", "Duration of the last recovery, from the pause until nothing was left.", gauge, nil},
		{"recovery_undecided_transactions", "Transactions of nodes that are gone, not decided yet.", gauge, nil},
		{"recovered_transactions_total", "Transactions of nodes that are gone, decided by this node.", counter,
			[]string{"decision"}},
		{"filled_records_total", "Records copied into replicas on the node.", counter, nil},
		{"data_runs", "Runs that have used the tables which the node keeps; absent if it keeps none.", gauge, nil},
		{"log_bytes", "Memory for the workers' logs of their own transactions; absent, like the rest of log, without " +
			"them.", gauge, nil},
		{"log_used_bytes", "Bytes of these logs in use.", gauge, nil},
		{"log_slots", "Slots for transactions in the logs.", gauge, nil},
		{"log_slots_taken", "Slots of transactions that are under way, or wait for another node.", gauge, nil},
		{"log_records_total", "Records written to the logs.", counter, nil},
		{"log_waits_total", "Transactions that have waited for a slot.", counter, nil},
		{"log_too_long_total", "Attempts whose records did not fit into a slot.", counter, nil},
		{"log_recovery_seconds", "Duration of the last recovery from the logs, of the slowest worker.", gauge, nil},
		{"log_recovery_records", "Records that it has found, by state.", gauge, []string{"state"}},
		{"log_recovery_transactions", "Transactions that it has completed, undone, finished piece by piece (resumed), or not finished yet.", gauge,
			[]string{"decision"}},
		{"queue_pairs", "Queue pairs by type.", gauge, []string{"type"}},
		{"queue_pairs_in_error", "RC queue pairs in the error state.", gauge, nil},
		{"registered_memory_bytes", "Memory that is registered for tables.", gauge, nil},
		{"location_cache_bytes", "Size of the location cache.", gauge, nil},
		{"table_entries", "Entries of a table.", gauge, table},
		{"table_entries_used", "Entries that are bound to a key, absent ones included.", gauge,
			table},
		{"table_slots", "Slots of main buckets.", gauge, table},
		{"table_slots_used", "Slots of main buckets that are taken, links included.", gauge, table},
		{"table_indirect_buckets", "Indirect buckets of a table.", gauge, table},
		{"table_indirect_buckets_used", "Indirect buckets that are in a chain.", gauge, table},

		{"transactions_total", "Transactions by type and outcome.", counter,
			[]string{"protocol", "type", "outcome"}},
		{"transaction_attempts_total", "Attempts of transactions by type.", counter,
			[]string{"protocol", "type"}},
		{"aborted_attempts_total", "Aborted attempts by type and cause.", counter,
			[]string{"protocol", "type", "cause"}},
		{"engine_fallbacks_total", "Attempts on the fallback path.", counter, protocol},
		{"lease_waits_total", "Waits for a read lease to expire.", counter, protocol},
		{"remote_lookups_total", "Look-ups of remote records.", counter, protocol},
		{"remote_lookups_cached_total",
			"Look-ups of remote records that the location cache answered.", counter, protocol},

		{"htm_regions_total", "Emulated hardware transactions begun.", counter, nil},
		{"htm_commits_total", "Emulated hardware transactions committed.", counter, nil},
		{"htm_aborts_total", "Emulated hardware transactions aborted, by cause.", counter,
			[]string{"cause"}},

		{"verbs_requests_total", "Work requests posted, by opcode.", counter, []string{"opcode"}},
		{"verbs_payload_bytes_total", "Payload of work requests, in either direction.", counter,
			nil},
		{"verbs_doorbells_total", "Post calls; each posts one or more work requests.", counter, nil},
		{"verbs_completions_total", "Completions by status.", counter, []string{"status"}},
		{"cq_polls_total", "Polls of completion queues. " +
			"Completions per poll are the rate of completions over that of polls.", counter, nil},
		{"cq_empty_polls_total", "Polls that found no completion.", counter, nil},
		{"fiber_resumes_total", "Fibers resumed.", counter, nil},

		{"rpc_calls_total", "RPC calls started.", counter, nil},
		{"rpc_requests_total", "RPC requests executed for peers.", counter, nil},
		{"rpc_retransmissions_total", "RPC calls sent again after a timeout.", counter, nil},
		{"rpc_duplicates_total", "RPC messages that had been handled before.", counter, nil},
		{"rpc_messages_total", "RPC messages by direction.", counter, []string{"direction"}},
		{"rpc_datagrams_total", "Datagrams by direction.", counter, []string{"direction"}},
		{"rpc_acks_total", "Datagrams sent without a message.", counter, nil},
		{"rpc_doorbells_total", "Post calls for datagrams.", counter, nil},
		{"rpc_stalls_total", "Times that messages waited because a window was full.", counter, nil},
		{"rpc_reclaimed_datagrams_total", "Datagrams assumed to be lost.", counter, nil},
		{"rpc_resets_total", "Resets sent to peers.", counter, nil},
		{"rpc_evicted_sessions_total", "Silent sessions that were closed to make room for others.", counter, nil},
		{"rpc_garbage_total", "Datagrams dropped, by reason.", counter, []string{"reason"}},
	}
}

// latencySpec describes the only histogram. Its kind is not used.
func latencySpec() spec {
	return spec{name: "transaction_duration_seconds", help: "Latency of committed transactions, " +
		"retries included; only sampled transactions.", labels: []string{"protocol", "type"}}
}
