#!/usr/bin/env bash
# bench-replicas.sh: cost of three replicas: SmallBank on shared memory under every protocol that replicates.
#
# Usage: scripts/bench-replicas.sh [ROUNDS]   default 5; about a minute each
#
# Each round runs every protocol with one and with three copies of each record, one after the other, so that a
# ratio compares runs of the same minute. A figure is the median of the rounds, in finished transactions per
# second of three nodes: committed, or rolled back by their own rules. Keep the machine idle. On shared memory
# the initiator's CPU executes one-sided operations, so the ratios say nothing about NICs.
set -euo pipefail

# shellcheck source=scripts/lib/common.sh
. "$(dirname "$0")/lib/common.sh"
cd "$REPO"

RUN=(bin/drtmd bench --nodes 3 --accounts 33333 --warmup 500ms --duration 2s --log-level error)

# protocols: those that replicate, in the order of the list.
protocols() {
  "${RUN[0]}" bench --list --json - | awk '
    /"protocols": \[/ { on = 1 }
    on && /^      "name":/ { gsub(/[",]/, ""); name = $2 }
    on && /^      "replicates": true/ { print name }'
}

# rounds N: every protocol with one and three copies, N times.
rounds() {
  local i p r
  for ((i = 1; i <= $1; i++)); do
    say "round $i of $1"
    for p in $(protocols); do
      for r in 1 3; do
        "${RUN[@]}" --protocol "$p" --replicas "$r" |
          awk -v line="$p $r" '$1 == "all" { print line, $2 + $8; seen = 1 } END { exit !seen }'
      done
    done
  done
}

# table FILE: medians.
table() {
  sort -k1,1 -k2,2n -k3,3g "$1" | awk '
    function close_group() { if (n) m[name, copies] = n % 2 ? v[(n + 1) / 2] : (v[n / 2] + v[n / 2 + 1]) / 2 }
    $1 != name || $2 != copies {
      close_group()
      if ($1 != name) names[++count] = $1
      name = $1; copies = $2; n = 0
    }
    { v[++n] = $3 }
    END { close_group()
      printf "%-24s %12s %12s %7s\n", "SmallBank, transactions/s", "one copy", "three", "ratio"
      for (i = 1; i <= count; i++) {
        a = m[names[i], 1]; b = m[names[i], 3]
        printf "%-25s %12.0f %12.0f %7.2f\n", names[i], a, b, a ? b / a : 0
      } }'
}

main() {
  [[ ${1:-} != --help ]] || { print_help "$0" && exit 0; }
  local n=${1:-5} out=bin/bench-replicas.txt
  [[ $n =~ ^[1-9][0-9]{0,2}$ ]] || usage_error "ROUNDS is a number from 1 to 999"
  rounds "$n" >"$out"
  printf '%s, %s cores, medians of %s rounds\n\n' \
    "$(sed -n 's/^model name\t: //p' /proc/cpuinfo | head -n 1)" "$(nproc)" "$n"
  table "$out"
}

main "$@"
