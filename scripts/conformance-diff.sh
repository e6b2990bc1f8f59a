#!/usr/bin/env bash
# conformance-diff.sh: runs the conformance suite on shm on this machine and on rxe in a guest, and prints
# the difference between the two lists of test names and results. There should be none.
#
# Usage: scripts/conformance-diff.sh
#
# The suite is the test TestConformance of verbs/shm and of verbs/ibv; a case is a subtest of it.
# Exit codes: 0 the same cases with the same results, and at least one; 1 otherwise.
set -euo pipefail

# shellcheck source=scripts/lib/common.sh
. "$(dirname "$0")/lib/common.sh"
cd "$REPO"

TEST='^TestConformance$'
DIR=bin/conformance

# cases FILE: `RESULT NAME` of each case in the output of go test -v, sorted.
cases() {
  sed -n 's/^ *--- \(PASS\|FAIL\|SKIP\): \(TestConformance[^ ]*\) (.*/\1 \2/p' "$1" | sort
}

# suite NAME COMMAND...: runs the suite and keeps its output and its cases.
suite() {
  local name=$1
  shift
  say "running the suite on $name"
  "$@" >"$DIR/$name.log" 2>&1 || say "the suite fails on $name: see $DIR/$name.log"
  cases "$DIR/$name.log" >"$DIR/$name.cases"
  say "$name: $(wc -l <"$DIR/$name.cases") cases"
}

mkdir -p "$DIR"
suite shm scripts/go test -count=1 -v -run "$TEST" ./verbs/shm
suite rxe scripts/test-rxe.sh --run "$TEST" --package ./verbs/ibv
[[ -s $DIR/shm.cases ]] || die "the suite ran no case on shm" "see $DIR/shm.log"
if diff -u "$DIR/shm.cases" "$DIR/rxe.cases"; then
  echo "no difference: $(wc -l <"$DIR/shm.cases") cases, the same names and results on shm and rxe"
else
  die "the suite differs between shm and rxe, see above" "$DIR holds both outputs"
fi
