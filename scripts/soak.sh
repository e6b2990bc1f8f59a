#!/usr/bin/env bash
# soak.sh: long searches for rare failures:
#
#   - a cluster of daemons that is disturbed for 10 minutes (DRTMD_SOAK_TIME) and must neither leak nor
#     leave a run stuck
#   - 50 runs with three replicas, in each of which a daemon is killed at a random moment (DRTMD_SOAK_KILLS)
#   - as many kills of processes with clusters in kept memory, under DrTM with logs
#   - as often, daemons that keep their tables are killed in the middle of TPC-C, all at once, and two of three
#   - as often, processes of a memory node's clients are killed and stopped
#   - 2,000 damaged files of etcd (DRTMD_SOAK_DAMAGES)
#   - every fuzz target
#   - the simulator's scenarios of protocols, with 100,000 seeds each (DRTMD_SOAK_SEEDS), and 1,000 for each
#     mutation of a safety step
#   - the tables and figures of the papers in small sizes
#   - the stress tests, repeatedly, plain and under the race detector
#
# Usage: scripts/soak.sh [TIME]     TIME for each fuzz target and each kind of stress; default 5m
#
# A stress test has Stress or Storm in its name. The soak ends at the first failure. go keeps a failing input
# of a fuzz target in the package's testdata/fuzz. Exit codes: 0 nothing found, 1 a failure was found.
set -euo pipefail

# shellcheck source=scripts/lib/common.sh
. "$(dirname "$0")/lib/common.sh"
cd "$REPO"

# seconds TIME: 90s, 5m or 2h as seconds.
seconds() {
  [[ $1 =~ ^([1-9][0-9]{0,5})([smh])$ ]] || usage_error "'$1' is no time such as 90s, 5m or 2h"
  local -A unit=([s]=1 [m]=60 [h]=3600)
  echo $((BASH_REMATCH[1] * unit[${BASH_REMATCH[2]}]))
}

# fuzz_targets: `PACKAGE NAME` a line. go test -list prints names, then `ok PACKAGE`.
fuzz_targets() {
  scripts/go test -list '^Fuzz' ./... |
    awk '/^Fuzz/ { names[++n] = $1 } /^ok/ { for (i = 1; i <= n; i++) print $2, names[i]; n = 0 }'
}

# repeat SECONDS COMMAND...: until the time is over; at least once.
repeat() {
  local deadline=$((SECONDS + $1)) rounds=0
  shift
  while ((rounds == 0 || SECONDS < deadline)); do
    "$@"
    rounds=$((rounds + 1))
  done
  say "$rounds rounds without a failure: $*"
}

# scenarios SEEDS: what every protocol must stand in the simulator.
scenarios() {
  scripts/go build -o bin/drtmd ./cmd/drtmd
  local name names short
  names=$(bin/drtmd sim --list | awk '/locks checked$/ { print $1 }')
  short=$(bin/drtmd sim --list | awk '/for --every-step$/ { print $1 }')
  for name in $names followed-clocks; do
    say "seeds 1..$1 of $name"
    bin/drtmd sim --scenario "$name" --seeds "1..$1"
  done
  for name in $short; do
    say "a crash at every step of $name, 20 runs"
    local seed
    for seed in {1..20}; do
      bin/drtmd sim --scenario "$name" --seed "$seed" --every-step
    done
  done
  say "each safety step is left out, and those that change nothing are run with 1,000 seeds"
  scripts/go test -count=1 -timeout 6h -run '^(TestEachMutation|TestEquivalentMutations|TestDeathsAtEveryStep)' \
    ./proto/scenario -args -whole
  say "small worlds of transactions in every order of their messages, 20,000 runs of each at most, with every mutation"
  scripts/go test -v -count=1 -timeout 6h -run '^TestSmallWorlds' ./proto/scenario -args -whole
  say "every order of two HADES transactions, for every pair of programs"
  scripts/go test -count=1 -timeout 6h -run '^TestEveryOrder' ./proto/hades/hardware -args -whole
}

# daemons TIME: kills, stops and drains daemons of a cluster, with a line a round. The warm-up before
# it and the round that is under way at its end take some minutes more at most.
daemons() {
  say "a cluster of daemons is disturbed for $1"
  DRTMD_SOAK_TIME=$1 scripts/go test -v -count=1 -timeout "$(($(seconds "$1") + 1800))s" \
    -run '^TestSoakOfDaemons$' ./cmd/drtmd/internal/endtoend
}

# kills N: N runs with three replicas, each with a daemon that is killed; each is checked.
kills() {
  say "$1 daemons are killed in runs with three replicas"
  DRTMD_SOAK_KILLS=$1 scripts/go test -v -count=1 -timeout 3h -run '^(TestRunsOutliveKilledNodes|TestDaemonsComeBackWithTheirTables)$' \
    ./cmd/drtmd/internal/endtoend
  say "processes with clusters in kept memory are killed $1 times"
  DRTMD_SOAK_KILLS=$1 scripts/go test -v -count=1 -timeout 3h -run 'TestADurableCluster|TestTPCCKeeps' \
    ./proto/node
  say "clients of a memory node are killed and stopped $1 times"
  DRTMD_SOAK_KILLS=$1 scripts/go test -v -count=1 -timeout 3h -run '^(TestKilledProcesses|TestClientsAreKilledAndStopped)' \
    ./proto/rtx ./proto/rtx/engine
}

# damages N: N files of etcd's damaged at random, each of which must be said in one line or do no harm.
damages() {
  say "$1 files of the embedded etcd are damaged"
  DRTMD_TEST_DAMAGE=$1 scripts/go test -count=1 -timeout 3h -run '^TestDamagedFilesAreSaidInOneLine$' \
    ./proto/member/etcdmember
}

# papers: every table and figure that is done must stay within its bounds.
papers() {
  say "tables and figures of the papers, in small sizes"
  scripts/go build -o bin/drtmd ./cmd/drtmd
  # Exit code 3: some rows exceed their bounds. Those must say why.
  local status=0 over known
  bin/drtmd reproduce all --quick --seeds 3 --json >bin/papers.json || status=$?
  over=$(grep -c '"exceeds_bound": true' bin/papers.json || true)
  known=$(grep -c '"missed": ' bin/papers.json || true)
  say "$over rows exceed their bounds, $known of them for a known reason"
  if ((status != 0 && status != 3)) || ((over != known)); then
    die "reproduce: status $status" "see bin/papers.json"
  fi
}

main() {
  [[ ${1:-} != --help ]] || { print_help "$0" && exit 0; }
  local time package name targets
  time=$(seconds "${1:-5m}")
  daemons "${DRTMD_SOAK_TIME:-10m}"
  kills "${DRTMD_SOAK_KILLS:-50}"
  damages "${DRTMD_SOAK_DAMAGES:-2000}"
  targets=$(fuzz_targets)
  [[ -n $targets ]] || say "there is no fuzz target"
  while read -r package name; do
    [[ -n $package ]] || continue
    say "fuzzing $name of $package for $time s"
    scripts/go test -run '^$' -fuzz "^$name\$" -fuzztime "${time}s" "$package"
  done <<<"$targets"
  scenarios "${DRTMD_SOAK_SEEDS:-100000}"
  papers
  repeat "$time" scripts/go test -count=1 -run 'Stress|Storm' ./...
  repeat "$time" scripts/go test -race -count=1 -run 'Stress|Storm' ./...
}

main "$@"
