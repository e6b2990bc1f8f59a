#!/usr/bin/env bash
# test.sh: runs the tests of all packages, for make test.
#
# Usage: scripts/test.sh REGEXP [computing | waiting]
#
# Tests of packages that match REGEXP compute and wait for nothing. They run beside all others, with
# a low priority: they take what the others, which wait for leases and processes most of the
# time, leave of the CPUs, and hold none of them up. With `computing` only they run, with `waiting` only
# the others.
#
# Exit codes: 0 all passed, 1 some failed, 2 usage, 130 interrupted, 143 terminated.
set -euo pipefail

# shellcheck source=scripts/lib/common.sh
. "$(dirname "$0")/lib/common.sh"
cd "$REPO"

case ${1:-} in
  --help | -h) print_help "$0" && exit 0 ;;
esac
(($# == 1 || $# == 2)) || usage_error "name the packages whose tests wait for nothing"
PART=${2:-all}
[[ $PART =~ ^(all|computing|waiting)$ ]] || usage_error "unknown part '$PART'"

# These have nothing for the race run either, but daemons, which have leases.
DAEMONS='/(archtest|endtoend)$'
# It computes for longer than all others, in parts on one CPU: it begins first, so as not to be alone in the end.
LONGEST='/proto/scenario$'

all=$(scripts/go list ./...)
mapfile -t computing < <(grep -E "$1" <<<"$all" | grep -vE "$DAEMONS" |
  awk -v longest="$LONGEST" '$0 ~ longest { print; next } { rest = rest $0 "\n" } END { printf "%s", rest }')
# The daemons' tests wait for longest: they begin first, so as not to be alone in the end, either.
mapfile -t others < <(grep -E "$DAEMONS" <<<"$all"; grep -vE "$1" <<<"$all")
((${#computing[@]} > 0)) || usage_error "no package matches $1"
compile_once
# Before both, or each would compile the same. make lint has go vet look at all packages, and their tests.
scripts/go build ./...

# Simulations make much garbage in little memory: they collect it less often.
compute() { GOGC=400 scripts/go test -vet=off -count=1 -timeout 60m "${computing[@]}"; }

failed=0
if [[ $PART == all ]]; then
  set -m # a process group of its own, to end all of it
  (renice -n 10 -p "$BASHPID" >/dev/null && compute </dev/null) &
  beside=$!
  set +m
  trap 'kill -INT -- "-$beside" 2>/dev/null && wait "$beside" || true' EXIT
fi
# Ctrl-C makes go test end in order, with a status of its own, so bash would go on.
trap 'exit 130' INT
trap 'exit 143' TERM

[[ $PART != computing ]] || compute || failed=1
[[ $PART == computing ]] || scripts/go test -vet=off -count=1 -timeout 20m "${others[@]}" || failed=1
[[ $PART != all ]] || wait "$beside" || failed=1
((failed == 0)) || die "some tests failed" "look for FAIL above"
