#!/usr/bin/env bash
# pgo.sh: makes a profile by which the compiler can decide what to inline, from benchmarks of the
# layers on this machine.
#
# Usage: scripts/pgo.sh [FILE]       default bin/pgo/default.pgo
#
# Takes some two minutes. Use it with go build -pgo=FILE or go test -pgo=FILE; as
# cmd/drtmd/default.pgo every build of drtmd would take it, and compile all that drtmd is made of,
# the standard library too, once more than the tests do.
set -euo pipefail

# shellcheck source=scripts/lib/common.sh
. "$(dirname "$0")/lib/common.sh"
cd "$REPO"

OUT=bin/pgo

# passed LOG: whether the benchmarks did; a package's check for descriptors that are left open takes
# the profile for one.
passed() {
  grep -q '^PASS' "$1" || { cat "$1" >&2 && return 1; }
}

# profile PACKAGE REGEXP: runs benchmarks of a package on this machine.
profile() {
  local name
  name=$(basename "$1")
  scripts/go test -run '^$' -bench "$2" -benchtime 2s -cpuprofile "$OUT/$name.prof" \
    -o "$OUT/$name.test" "$1" >"$OUT/$name.log" || passed "$OUT/$name.log"
}

main() {
  [[ ${1:-} != --help ]] || { print_help "$0" && exit 0; }
  (($# <= 1)) || usage_error "it takes one file at most"
  local file=${1:-$OUT/default.pgo}
  mkdir -p "$OUT"
  profile ./verbs/shm .
  profile ./verbs/rpc 'RoundTrip|Rate'
  profile ./verbs/scenario 'Events|Fibers'
  scripts/go tool pprof -proto "$OUT"/*.prof >"$file"
  say "$(du -h "$file" | cut -f1) in $file"
}

main "$@"
