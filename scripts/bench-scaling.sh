#!/usr/bin/env bash
# bench-scaling.sh: scaling of SmallBank under DrTM with simulated machines, beside DrTM's Figure 17(a).
#
# Usage: scripts/bench-scaling.sh [SEEDS]   default 3; about a minute each
#
# All figures are modelled, in virtual time: the same seeds give the same table on every machine, at
# any load. The model is cx3-56g, DrTM's cluster, with 8 workers per machine, as many as DrTM runs on one
# processor (§8.1). A rate counts finished transactions, committed or rolled back by their own rules, in
# 5 ms after 1 ms of warm-up. It is the mean over the seeds 1 to SEEDS; the range is that of the speed-up
# over the seeds.
#
# A second table has the speed-up of six machines over one under other conditions. It shows what limits
# the speed-up.
set -euo pipefail

# shellcheck source=scripts/lib/common.sh
. "$(dirname "$0")/lib/common.sh"
cd "$REPO"

RUN=(bin/drtmd bench --workload smallbank --protocol drtm --transport sim --warmup 1ms --duration 5ms
  --sample-every -1 --log-level error)
PAPER=4.52

# measure NAME MACHINES SEEDS FLAG...: a line for each seed: name, machines, seed, rate.
measure() {
  local name=$1 n=$2 seeds=$3 s far=()
  shift 3
  ((n == 1)) || far=(--distributed 0.01) # one machine has no other to reach
  for ((s = 1; s <= seeds; s++)); do
    "${RUN[@]}" --nodes "$n" --seed "$s" "${far[@]}" "$@" |
      awk -v line="$name $n $s" '$1 == "all" { print line, $2 + $8; seen = 1 } END { exit !seen }'
  done
}

# pair NAME SEEDS FLAG...: one machine and six.
pair() {
  local name=$1 seeds=$2
  shift 2
  say "$name"
  measure "$name" 1 "$seeds" "$@"
  measure "$name" 6 "$seeds" "$@"
}

measure_all() {
  local n cx3=(--preset cx3 --workers 8 --fibers 1)
  for ((n = 1; n <= 6; n++)); do
    say "$n of 6 machines"
    measure drtm "$n" "$1" "${cx3[@]}"
  done
  pair one-worker "$1" --preset cx3 --workers 1 --fibers 1
  pair sixteen-workers "$1" --preset cx3 --workers 16 --fibers 1
  pair sixteen-fibers "$1" --preset cx3 --workers 8 --fibers 16
  pair quick-atomics "$1" --cost "$DIR/quick.yaml" --workers 8 --fibers 1
}

# table FILE: of lines that measure printed.
table() {
  awk -v paper="$PAPER" '
    { sum[$1, $2] += $4; rate[$1, $2, $3] = $4; seeds = $3 > seeds ? $3 : seeds }
    function row(name, n,    s, x, low, high) {
      low = 1e9; high = 0
      for (s = 1; s <= seeds; s++) {
        x = rate[name, n, s] / rate[name, 1, s]
        if (x < low) low = x
        if (x > high) high = x
      }
      return sprintf("%9.1f  %8.2f  %.2f-%.2f", sum[name, n] / seeds / 1e6,
        sum[name, n] / sum[name, 1], low, high)
    }
    function other(name, what) { printf "%-48s %s\n", what, row(name, 6) }
    END {
      print "machines  million/s  speed-up  range      DrTM Fig. 17(a)"
      for (n = 1; n <= 6; n++) printf "%8d  %s  %s\n", n, row("drtm", n),
        n == 6 ? sprintf("%.2f (%+.0f %%)", paper,
          (sum["drtm", 6] / sum["drtm", 1] / paper - 1) * 100) : n == 1 ? "1" : ""
      print "\nsix machines against one of the same kind        million/s  speed-up  range"
      other("one-worker", "1 worker per machine")
      other("sixteen-workers", "16 workers per machine")
      other("sixteen-fibers", "8 workers of 16 fibers that wait by turns")
      other("quick-atomics", "8 workers, atomics as quick as READs") }' "$1"
}

main() {
  [[ ${1:-} != --help ]] || { print_help "$0" && exit 0; }
  local seeds=${1:-3}
  [[ $seeds =~ ^[1-9][0-9]?$ ]] || usage_error "SEEDS is a number from 1 to 99"
  need_drtmd
  DIR=$(mktemp -d)
  trap 'rm -rf "$DIR"' EXIT
  printf 'name: cx3-56g-quick-atomics\nbase: cx3-56g\nnic:\n  atomic-latency: 0 ns\n' >"$DIR/quick.yaml"
  measure_all "$seeds" >"$DIR/lines"
  printf 'SmallBank under DrTM, modelled: cx3-56g, 1 %% distributed, means of %s seeds\n\n' "$seeds"
  table "$DIR/lines"
}

main "$@"
