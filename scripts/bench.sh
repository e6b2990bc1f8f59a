#!/usr/bin/env bash
# bench.sh: cost of transactions: SmallBank on shared memory under every protocol.
#
# Usage: scripts/bench.sh [ROUNDS]   default 10; about half a minute each
#
# Each round runs every configuration once, one after the other, so that a ratio compares runs of the same
# half minute. A figure is the median of the rounds, in finished transactions per second: committed, or
# rolled back by their own rules. Keep the machine idle. Three nodes on one thread together have as many
# customers as one node, because they share its caches. The last table has the CPU time and the allocations
# of a local transaction, from a Go benchmark.
set -euo pipefail

# shellcheck source=scripts/lib/common.sh
. "$(dirname "$0")/lib/common.sh"
cd "$REPO"

RUN=(bin/drtmd bench --warmup 500ms --duration 2s --log-level error)
LOCAL=(--nodes 1 --threads 1)

# measure NAME FLAG...: one line, the name and its rate.
measure() {
  local name=$1
  shift
  "${RUN[@]}" "$@" | awk -v name="$name" '$1 == "all" { print name, $2 + $8 }'
}

# rounds N: every configuration, N times.
rounds() {
  local i
  for ((i = 1; i <= $1; i++)); do
    say "round $i of $1"
    measure nocc "${LOCAL[@]}" --protocol nocc
    measure drtm "${LOCAL[@]}" --protocol drtm
    measure twopl "${LOCAL[@]}" --protocol twopl
    measure twopl-local "${LOCAL[@]}" --protocol twopl-local
    measure farm "${LOCAL[@]}" --protocol farm
    measure farm-3-nodes --nodes 3 --threads 1 --protocol farm --accounts 33333
    measure farm-3-replicas --nodes 3 --threads 1 --protocol farm --accounts 33333 --replicas 3
    measure drtm-recorded "${LOCAL[@]}" --protocol drtm --check
    measure drtm-timed "${LOCAL[@]}" --protocol drtm --sample-every 1
    measure drtm-3-nodes --nodes 3 --threads 1 --protocol drtm --distributed 0.01 --accounts 33333
    measure drtm-2-nodes --nodes 2 --threads 1 --protocol drtm --distributed 0
    measure drtm-2-threads --nodes 2 --threads 2 --protocol drtm --distributed 0
  done
}

# table FILE: medians, and ratios with their goals.
table() {
  sort -k1,1 -k2,2g "$1" | awk '
    function close_group() { if (n) m[name] = n % 2 ? v[(n + 1) / 2] : (v[n / 2] + v[n / 2 + 1]) / 2 }
    $1 != name { close_group(); name = $1; n = 0 }
    { v[++n] = $2 }
    function row(what, a, b, goal) {
      printf "%-46s %12.0f %12.0f %7.2f  %s\n", what, m[a], m[b], m[b] ? m[a] / m[b] : 0, goal }
    END { close_group()
      printf "%-46s %12s %12s %7s  %s\n", "SmallBank, transactions/s", "this", "that", "ratio", "goal"
      row("drtm against no concurrency control", "drtm", "nocc", "at least 0.7")
      row("farm against no concurrency control", "farm", "nocc", "at least 0.5")
      row("farm on 3 nodes, 3 replicas against 1", "farm-3-replicas", "farm-3-nodes", "")
      row("drtm against twopl by loopback", "drtm", "twopl", "at least 2")
      row("drtm against twopl with CPU locks", "drtm", "twopl-local", "")
      row("drtm, 3 nodes, 1 % distributed, against 1 node", "drtm-3-nodes", "drtm", "at least 0.8")
      row("drtm on 2 threads against 1, 2 nodes", "drtm-2-threads", "drtm-2-nodes", "at least 1.7")
      row("drtm with its history recorded against without", "drtm-recorded", "drtm", "")
      row("drtm, every latency measured, against 1 in 64", "drtm-timed", "drtm", "") }'
}

main() {
  [[ ${1:-} != --help ]] || { print_help "$0" && exit 0; }
  local n=${1:-10} out=bin/bench.txt
  [[ $n =~ ^[1-9][0-9]{0,2}$ ]] || usage_error "ROUNDS is a number from 1 to 999"
  need_drtmd
  rounds "$n" >"$out"
  printf '%s, %s cores, medians of %s rounds\n\n' \
    "$(sed -n 's/^model name\t: //p' /proc/cpuinfo | head -n 1)" "$(nproc)" "$n"
  table "$out"
  printf '\n'
  scripts/go test -run '^$' -bench SmallBank ./cmd/drtmd/internal/load
}

main "$@"
