#!/usr/bin/env bash
# pgo.sh: makes a profile from benchmarks on this machine. The compiler uses it to decide what to inline.
#
# Usage: scripts/pgo.sh [FILE]       default cmd/drtmd/default.pgo, which every build of drtmd uses
#
# Takes about six minutes. Make a new profile when the hot paths have changed; an old one does no harm.
# make bench-verbs uses the profile, too (go test -pgo=FILE).
set -euo pipefail

# shellcheck source=scripts/lib/common.sh
. "$(dirname "$0")/lib/common.sh"
cd "$REPO"

OUT=$(mktemp -d -t drtmd-pgo.XXXXXX) # its name gets into the profile
trap 'rm -rf "$OUT"' EXIT

# passed LOG: whether the benchmarks did; a package's check for descriptors that are left open takes
# the profile for one.
passed() {
  grep -q '^PASS' "$1" || { cat "$1" >&2 && return 1; }
}

# profile PACKAGE REGEXP TIME: runs benchmarks of a package on this machine, each for so long.
profile() {
  local name
  name=$(basename "$1")
  scripts/go test -trimpath -run '^$' -bench "$2" -benchtime "$3" -cpuprofile "$OUT/$name.prof" \
    -o "$OUT/$name.test" "$1" >"$OUT/$name.log" || passed "$OUT/$name.log"
}

main() {
  [[ ${1:-} != --help ]] || { print_help "$0" && exit 0; }
  (($# <= 1)) || usage_error "it takes one file at most"
  local file=${1:-cmd/drtmd/default.pgo}
  profile ./verbs/shm . 2s
  profile ./verbs/rpc 'RoundTrip|Rate' 2s
  profile ./verbs/scenario 'Events|Fibers' 2s
  profile ./htm 'Region|Records' 2s
  # A transaction is spread over many functions: at 100 samples a second, 2 s would not see all of them.
  profile ./cmd/drtmd/internal/load SmallBank 12s
  # All five transactions of TPC-C, as a whole and in pieces, for 12 s of CPU time each.
  DRTMD_TPCC_SECONDS=12 profile ./proto/workload/tpcc OneThread/full 1x
  scripts/go tool pprof -proto "$OUT"/*.prof >"$file"
  say "$(du -h "$file" | cut -f1) in $file"
}

main "$@"
