#!/usr/bin/env bash
# bench-replicas.sh: every protocol, with one copy of each record and with three: SmallBank, TATP, and YCSB A
# to C as transactions of five operations, on three nodes. Every run is proved strictly serializable.
#
# Usage: scripts/bench-replicas.sh [--rxe] [ROUNDS] [WORKLOAD]...   about 6 minutes a round; default 3
#        scripts/bench-replicas.sh --ford [ROUNDS]                  about 2 minutes a round; default 3 rounds
#        scripts/bench-replicas.sh --memory [ROUNDS]                about 1 minute a round; default 3 rounds
#        scripts/bench-replicas.sh --dandelion [--rxe] [ROUNDS]     about 10 seconds a round, more in a guest; default 3
#
# Each round runs every protocol with one and with three copies, one after the other, so that a ratio compares
# runs of the same minutes. A figure is the median of the rounds, in finished transactions per second of three
# nodes: committed, or rolled back by their own rules. Keep the machine idle. The runs are on shared memory,
# where the initiator's CPU executes one-sided operations; with --rxe they are on Soft-RoCE, in a virtual
# machine, whose CPU is emulated, and a round takes about 15 minutes. So the ratios say nothing about NICs.
# drtm and twopl do not replicate. WORKLOAD is smallbank, tatp, ycsb-a, ycsb-b or ycsb-c; default: all.
#
# --ford measures what FORD was measured at in the same kind of guest: SmallBank, TATP and TPC-C on Soft-RoCE, one
# transaction in flight, one copy of each record; 1,200, 1,800 and 29 committed transactions per second there. The
# better one of farm and drtmh, which locks at the commit or in EXECUTE, is compared; of TPC-C, drtm in pieces, with warehouses of full size. FORD keeps all records on
# a memory server: the rows whose records are all remote compare with it like for like. One client runs, on the first node.
#
# --memory measures rTX and its baselines on a memory node, on Soft-RoCE: YCSB C on B-link trees, with 8 look-ups in
# flight and with one; rTX also without copies of leaves. The goal is the paper's order: rTX is at least 0.9 times as fast
# as Optimal.
#
# --dandelion measures Dnl-4 beside FaSST: SmallBank and TATP as Dandelion §7 has them, three copies of each record. The ratio is
# the median of those of the rounds; the goal is 1 or more.
#
# Files: bin/bench-replicas-TRANSPORT.json, schema drtmd.bench-replicas/1 (docs/BENCH.md), not with --ford, --memory or
# --dandelion.
# It runs bin/drtmd of this tree: make build makes it.
# Exit codes: 0 done, 1 a run failed its checks or bin/drtmd is missing, 2 usage.
set -euo pipefail

# shellcheck source=scripts/lib/common.sh
. "$(dirname "$0")/lib/common.sh"
cd "$REPO"

RUNS=scripts/rxe-vm/guest/replicas

# measured ROUNDS [WORKLOAD]...: the lines of the runs, on TRANSPORT.
measured() {
  if [[ $TRANSPORT == shm ]]; then
    PATH="$REPO/bin:$PATH" "$RUNS" shm "$@"
  else
    in_guest $((300 + $1 * 1800)) ibv "$@"
  fi
}

# in_guest SECONDS ARGUMENT...: RUNS in a virtual machine.
in_guest() {
  scripts/rxe-vm/run --timeout "$1" --memory 3072 --copy bin/drtmd --copy "$RUNS" -- bash replicas "${@:2}"
}

# medians FILE: WORKLOAD PROTOCOL COPIES MEDIAN CHECKED RATE..., in the order of the runs.
medians() {
  awk 'NF == 5 && $3 ~ /^[13]$/ { print ++n, $0 }' "$1" | sort -k2,4 -k5,5g | awk '
    function close_group() {
      if (n) print first, group, n % 2 ? v[(n + 1) / 2] : (v[n / 2] + v[n / 2 + 1]) / 2, checked, rates }
    { key = $2 " " $3 " " $4
      if (key != group) { close_group(); group = key; n = checked = 0; first = $1; rates = "" }
      if ($1 < first) first = $1
      v[++n] = $5; checked += $6; rates = rates " " $5 }
    END { close_group() }' | sort -n | cut -d ' ' -f 2-
}

# table FILE: of medians.
table() {
  awk '
    $1 != workload { if (workload != "") print ""; workload = $1
      printf "%-24s %12s %12s %7s %12s\n", workload ", transactions/s", "one copy", "three", "ratio", "proved" }
    $3 == 1 { name = $2; one[$1, name] = $4; proved[$1, name] = $5
      if (name ~ /^(drtm|twopl)$/) printf "%-24s %12.0f %12s %7s %12.0f\n", name, $4, "-", "-", $5 }
    $3 == 3 { a = one[$1, $2]
      printf "%-24s %12.0f %12.0f %7.2f %12.0f\n", $2, a, $4, a ? $4 / a : 0, $5 + proved[$1, $2] }' "$1"
}

# document FILE ROUNDS: the same as JSON.
document() {
  awk -v transport="$TRANSPORT" -v rounds="$2" -v machine="$(machine)" -v date="$(date -u +%FT%TZ)" '
    BEGIN { printf "{\n  \"schema\": \"drtmd.bench-replicas/1\",\n  \"date\": \"%s\",\n  \"machine\": \"%s\",\n" \
        "  \"transport\": \"%s\",\n  \"rounds\": %d,\n  \"runs\": [", date, machine, transport, rounds }
    { printf "%s\n    {\"workload\": \"%s\", \"protocol\": \"%s\", \"replicas\": %d, \"finished_per_s\": %.0f, " \
        "\"checked\": %.0f, \"rounds\": [", (NR > 1 ? "," : ""), $1, $2, $3, $4, $5
      for (i = 6; i <= NF; i++) printf "%s%.0f", (i > 6 ? ", " : ""), $i
      printf "]}" }
    END { print "\n  ]\n}" }' "$1"
}

machine() { printf '%s, %s cores' "$(sed -n 's/^model name\t: //p' /proc/cpuinfo | head -n 1)" "$(nproc)"; }

# ford ROUNDS: FORD's measurement in a guest, with the goals of both workloads.
ford() {
  local out=bin/bench-ford.txt
  in_guest $((240 + $1 * 240)) one ibv "$1" >"$out"
  printf 'in a guest on %s, medians of %s rounds, one transaction in flight, one copy of each record\n\n' \
    "$(machine)" "$1"
  sort -k2,4 -k5,5g "$out" | awk '
    $1 != "one" { next }
    function close_group() { if (n) m[group] = n % 2 ? v[(n + 1) / 2] : (v[n / 2] + v[n / 2 + 1]) / 2 }
    { key = $2 " " $3 " " $4
      if (key != group) { close_group(); group = key; n = 0 }
      v[++n] = $5 }
    function row(w, ford, where, what,    f, d, e, best) {
      f = m[w " farm " where]; d = m[w " drtmh " where]; e = m[w " drtmh-early " where]
      best = f > d ? f : d; best = e > best ? e : best
      printf "%-10s %-32s %9.0f %9.0f %9.0f %9.0f %7.2f  %s\n", w, what, f, d, e, ford, best / ford, "at least 1.5" }
    function tpcc(where, what,    d) {
      d = m["tpcc drtm " where]
      printf "%-10s %-32s %9.0f %9d %7.1f  %s\n", "tpcc", what, d, 29, d / 29, "at least 10"
    }
    END { close_group()
      printf "%-10s %-32s %9s %9s %9s %9s %7s  %s\n", "committed/s", "", "farm", "drtmh", "early", "FORD", "ratio", "goal"
      row("smallbank", 1200, "local", "one node, all records local")
      row("smallbank", 1200, "half", "two nodes, half of them remote")
      row("smallbank", 1200, "far", "two nodes, all of them remote")
      row("tatp", 1800, "local", "one node, all records local")
      row("tatp", 1800, "half", "two nodes, half of them remote")
      row("tatp", 1800, "far", "two nodes, all of them remote")
      printf "\n%-10s %-32s %9s %9s %7s  %s\n", "committed/s", "", "drtm", "FORD", "ratio", "goal"
      tpcc("local", "one node, one warehouse")
      tpcc("half", "two nodes, a warehouse each") }'
}

# memory ROUNDS: the systems of memory nodes in a guest.
memory() {
  local out=bin/bench-memory.txt
  in_guest $((240 + $1 * 120)) memory ibv "$1" >"$out"
  printf 'in a guest on %s, medians of %s rounds, YCSB C on a B-link tree, one client of a memory node\n\n' \
    "$(machine)" "$1"
  sort -k2,4 -k5,5g "$out" | awk '
    $1 != "memory" { next }
    function close_group() { if (n) m[group] = n % 2 ? v[(n + 1) / 2] : (v[n / 2] + v[n / 2 + 1]) / 2 }
    { key = $2 " " $3
      if (key != group) { close_group(); group = key; n = 0 }
      v[++n] = $5 }
    function row(fibers,    o, d, r, w) {
      o = m["optimal " fibers]; d = m["dtx " fibers]; r = m["rtx " fibers]; w = m["rtx-reads " fibers]
      printf "%-12s %9.0f %9.0f %9.0f %10.0f %12.2f %15.2f  %s\n", fibers " in flight", o, d, r, w, r / o, w / o,
        "at least 0.9" }
    END { close_group()
      printf "%-12s %9s %9s %9s %10s %12s %15s  %s\n", "look-ups/s", "optimal", "dtx", "rtx", "no copies", "rtx/optimal",
        "without copies", "goal"
      row(8); row(1) }'
}

# dandelion ROUNDS: Dnl-4 beside FaSST, with the goal.
dandelion() {
  local out=bin/bench-dandelion-$TRANSPORT
  measured_dandelion "$1" | tee "$out.txt" | sed -n 's/^FAILED/failed its checks:/p' >&2
  printf '%s, %s, medians of %s rounds, three copies of each record\n\n' "$(machine)" "$TRANSPORT" "$1"
  awk '
    function median(v, n,    i, j, x) {
      for (i = 2; i <= n; i++) { x = v[i]; for (j = i - 1; j > 0 && v[j] > x; j--) v[j + 1] = v[j]; v[j + 1] = x }
      return n % 2 ? v[(n + 1) / 2] : (v[n / 2] + v[n / 2 + 1]) / 2 }
    BEGIN { printf "%-20s %9s %9s %7s  %s\n", "transactions/s", "fasst", "dnl4", "ratio", "goal" }
    NF == 5 && $2 == "fasst" { if (!($1 in n)) order[++workloads] = $1; fasst[$1, ++n[$1]] = $4 }
    NF == 5 && $2 == "dnl4" { dnl4[$1, n[$1]] = $4 }
    END { for (i = 1; i <= workloads; i++) { w = order[i]
      for (j = 1; j <= n[w]; j++) { f[j] = fasst[w, j]; d[j] = dnl4[w, j]; r[j] = d[j] / f[j] }
      printf "%-20s %9.0f %9.0f %7.2f  %s\n", substr(w, 11), median(f, n[w]), median(d, n[w]), median(r, n[w]),
        "at least 1" } }' "$out.txt"
  ! grep -q ^FAILED "$out.txt" || die "a run failed its checks" "see above, and $out.txt"
}

# measured_dandelion ROUNDS: the lines of the runs, on TRANSPORT.
measured_dandelion() {
  if [[ $TRANSPORT == shm ]]; then
    PATH="$REPO/bin:$PATH" "$RUNS" dandelion shm "$1"
  else
    in_guest $((240 + $1 * 120)) dandelion ibv "$1"
  fi
}

main() {
  TRANSPORT=shm
  local rounds out mode=all
  case ${1:-} in
    --help | -h) print_help "$0" && exit 0 ;;
    --rxe) TRANSPORT=ibv && shift ;;
    --ford) TRANSPORT=ibv mode=ford && shift ;;
    --memory) TRANSPORT=ibv mode=memory && shift ;;
    --dandelion)
      mode=dandelion && shift
      [[ ${1:-} != --rxe ]] || { TRANSPORT=ibv && shift; }
      ;;
    -*) usage_error "unknown flag '$1'" ;;
  esac
  rounds=${1:-3}
  [[ $rounds =~ ^[1-9][0-9]{0,2}$ ]] || usage_error "ROUNDS is a number from 1 to 999"
  shift $(($# > 0))
  need_drtmd
  if [[ $mode != all ]]; then
    "$mode" "$rounds"
    return
  fi
  out=bin/bench-replicas-$TRANSPORT
  measured "$rounds" "$@" | tee "$out.txt" | sed -n 's/^FAILED/failed its checks:/p' >&2
  medians "$out.txt" >"$out.medians"
  document "$out.medians" "$rounds" >"$out.json"
  printf '%s, %s, medians of %s rounds\n\n' "$(machine)" "$TRANSPORT" "$rounds"
  table "$out.medians"
  ! grep -q ^FAILED "$out.txt" || die "a run failed its checks" "see above, and $out.txt"
}

main "$@"
