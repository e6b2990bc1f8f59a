#!/usr/bin/env bash
# bench-commits.sh: compares the speed of two commits: SmallBank on shared memory.
#
# Usage: scripts/bench-commits.sh [--rounds N] [--seconds S] OLD NEW
#
# OLD and NEW are commits, or paths of drtmd programs built before. Each round runs every configuration
# with OLD and with NEW, one after the other. The rate is finished transactions per second of the process's
# CPU time, so that other load on the machine matters less. The time to load the tables is measured apart
# and left out. A ratio is the median of the rounds' ratios; above 1, NEW is faster. Defaults: N is 10,
# S is 2.
set -euo pipefail

# shellcheck source=scripts/lib/common.sh
. "$(dirname "$0")/lib/common.sh"
cd "$REPO"

ROUNDS=10
SECONDS_EACH=2

# program NAME: the path of a program, built in a work tree of its own if NAME is a commit.
program() {
  if [[ -x $1 && ! -d $1 ]]; then
    printf '%s\n' "$1"
    return
  fi
  local commit tree bin
  commit=$(git rev-parse --verify --quiet "$1^{commit}") || die "$1 is neither a program nor a commit"
  bin=$PWD/bin/commits/$commit
  if [[ ! -x $bin ]]; then
    tree=$(mktemp -d)
    git worktree add --quiet --detach "$tree" "$commit"
    mkdir -p .cache bin/commits
    ln -sfn "$(readlink -f .cache)" "$tree/.cache"
    (cd "$tree" && scripts/go build -o "$bin" ./cmd/drtmd)
    git worktree remove --force "$tree"
  fi
  printf '%s\n' "$bin"
}

# cpu SECONDS FLAG...: transactions and CPU seconds of one run.
cpu() {
  local seconds=$1
  shift
  local TIMEFORMAT='cpu %U %S'
  { time "$@" bench --warmup 100ms --duration "${seconds}s" --log-level error --threads 1 \
    "${FLAGS[@]}"; } 2>&1 |
    awk '$1 == "all" { n = $2 + $8 } $1 == "cpu" { t = $2 + $3 } END { print n + 0, t }'
}

# rate PROGRAM: transactions per CPU second, without what a run of a moment costs.
rate() {
  { cpu 0.1 "$1"; cpu "$SECONDS_EACH" "$1"; } | awk -v s="$SECONDS_EACH" '
    NR == 1 { n = $1 * 0.1; t = $2 } NR == 2 { print ($1 * s - n) / ($2 - t) }'
}

# round OLD NEW: a line for each configuration: name, both rates.
round() {
  local protocol where
  for protocol in drtm twopl nocc; do
    for where in local distributed; do
      FLAGS=(--protocol "$protocol" --nodes 1)
      [[ $where == local ]] || FLAGS=(--protocol "$protocol" --nodes 3 --distributed 0.1 --accounts 33333)
      printf '%s-%s %s %s\n' "$protocol" "$where" "$(rate "$1")" "$(rate "$2")"
    done
  done
}

main() {
  while [[ ${1:-} == --* ]]; do
    case $1 in
      --help) print_help "$0" && exit 0 ;;
      --rounds) ROUNDS=$2 ;;
      --seconds) SECONDS_EACH=$2 ;;
      *) usage_error "unknown flag $1" ;;
    esac
    shift 2
  done
  [[ $# == 2 ]] || usage_error "two commits or programs are needed"
  local old new i
  old=$(program "$1")
  new=$(program "$2")
  for ((i = 1; i <= ROUNDS; i++)); do
    say "round $i of $ROUNDS"
    if ((i % 2)); then
      round "$old" "$new"
    else
      round "$new" "$old" | awk '{ print $1, $3, $2 }'
    fi
  done | awk '{ print $1, $2, $3, $3 / $2 }' | sort -k1,1 -k4,4g | awk '
    function close_group(  h) {
      if (!n) return
      h = int((n + 1) / 2)
      printf "%-20s %12.0f %12.0f %7.3f\n", name, a[h], b[h], n % 2 ? r[h] : (r[h] + r[h + 1]) / 2 }
    BEGIN { printf "%-20s %12s %12s %7s\n", "SmallBank, per CPU s", "old", "new", "ratio" }
    $1 != name { close_group(); name = $1; n = 0 }
    { n++; a[n] = $2; b[n] = $3; r[n] = $4 }
    END { close_group() }'
}

main "$@"
