#!/usr/bin/env bash
# bench-verbs.sh: speed of the verbs layer and of RPCs: on rxe against perftest, on shm against plain
# memory and Go channels. One run prints two tables.
#
# Usage: scripts/bench-verbs.sh [ROUNDS]   rounds against perftest, default 5; 2 to 4 minutes each
#
# On rxe: both programs run in turn between two processes of one guest; a figure is the median of the
# rounds. The guest's CPU is emulated: read the ratios, not the microseconds. On shm: the benchmarks of
# verbs/shm, on this machine; keep the other cores idle.
set -euo pipefail

# shellcheck source=scripts/lib/common.sh
. "$(dirname "$0")/lib/common.sh"
cd "$REPO"

# table FILE: medians over the rounds, ours beside perftest's.
table() {
  awk '$1 == "ours" || $1 == "perftest" { print $2, $3, $4, $1, $5 }' "$1" |
    sort -k1,4 -k5,5g | awk '
      function median() { return n % 2 ? v[(n + 1) / 2] : (v[n / 2] + v[n / 2 + 1]) / 2 }
      function close_group() { if (n) { m[group, who] = median(); seen[group] = 1 } n = 0 }
      { key = $1 " " $2 " " $3
        if (key != group || $4 != who) { close_group(); group = key; who = $4 }
        v[++n] = $5 }
      END { close_group()
        for (g in seen) {
          o = m[g, "ours"]; p = m[g, "perftest"]
          printf "%s %s %s %s\n", g, o, p, (p > 0 ? o / p : "?") } }' |
    sort | awk 'BEGIN { printf "%-6s %6s  %-15s %10s %10s %7s  %s\n", "op", "bytes", "what",
        "drtmd", "perftest", "ratio", "goal" }
      { what = $3 == "rate" ? "messages/s" : $1 == "rpc" ? "round trip, us" : "median, us"
        goal = $3 == "rate" ? "at least 0.95" : $1 == "rpc" ? "at most 1.25" : "at most 1.10"
        printf "%-6s %6s  %-15s %10.1f %10.1f %7.3f  %s\n", $1, $2, what, $4, $5, $6, goal }'
}

main() {
  [[ ${1:-} != --help ]] || { print_help "$0" && exit 0; }
  local rounds=${1:-5} out=bin/bench-verbs.txt
  [[ $rounds =~ ^[1-9][0-9]{0,2}$ ]] || usage_error "ROUNDS is a number from 1 to 999"
  need_drtmd
  mkdir -p bin
  say "building the benchmark of RPCs"
  scripts/go test -c -o bin/rpc.test ./verbs/rpc
  say "measuring in the guest, $rounds rounds"
  scripts/rxe-vm/run --timeout $((120 + rounds * 300)) --memory 2048 --copy bin/drtmd \
    --copy bin/rpc.test --copy scripts/rxe-vm/guest/bench -- bash bench "$rounds" | tee "$out"
  printf '\non rxe, in the guest (Linux %s, emulated, %s rounds)\n' \
    "$(sed -n 's/^kernel //p' "$out")" "$rounds"
  table "$out"
  printf '\non shm, on this machine (%s)\n' \
    "$(sed -n 's/^model name\t: //p' /proc/cpuinfo | head -n 1), $(nproc) cores"
  scripts/go test -pgo=cmd/drtmd/default.pgo -run '^$' -bench . -benchmem ./verbs/shm
}

main "$@"
