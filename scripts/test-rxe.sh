#!/usr/bin/env bash
# test-rxe.sh: runs the project's tests on Soft-RoCE.
#
# Usage: scripts/test-rxe.sh [--native] [--run REGEXP] [--package PATH] [STORY...]
#
# First it runs the tests of every package below verbs, htm and cmd whose tests reach the provider over
# libibverbs, in a guest (scripts/rxe-vm/run) on its rxe0, with DRTMD_REQUIRE=ibv, which turns skips into
# failures, and DRTMD_TRANSPORT=ibv. Then it runs the stories of scripts/rxe-vm/tests, each in its own
# guests: set-up, packet loss, several nodes. Two of all these run side by side. With names of stories it
# runs only those; with --run or --package it runs no story. The last lines give the seconds that each took,
# and those of a CPU.
#
# RXE_AT_ONCE=N, in the environment: so many side by side, not two.
#
# --run REGEXP    only tests that match, as for go test -run
# --package PATH  only this package, such as ./verbs/ibv
# --native        no virtual machine: the test binaries run on this machine, on its rxe device or
#                 hardware (soft-roce-setup.sh up); no story, because stories change the network
#
# Exit codes: 0 all passed, 1 some failed, 2 usage.
set -euo pipefail

# shellcheck source=scripts/lib/common.sh
. "$(dirname "$0")/lib/common.sh"
cd "$REPO"

BIN=bin/rxe
VM=scripts/rxe-vm/run
STORIES=scripts/rxe-vm/tests
GUEST_SECONDS=1800  # for all test binaries together
# How many sets of guests run side by side: most of them wait most of the time. Two keep two CPUs busy, beside the tests
# that compute.
AT_ONCE=${RXE_AT_ONCE:-2}
# Stories that take longest begin first, so that none is alone in the end.
LONGEST=(transactions link-outage-daemons cluster memory)
RESULTS=()          # one line per package set and story: `ok NAME` or `FAIL NAME`
NAMES=() STARTED=() # of all that was started, and when
declare -A RUNNING=() # of these the numbers, by process

# OTHERS: packages that link the provider, and whose tests are of something else: of settings, of figures
# in the simulator, and of daemons on shared memory, whose leases are too short for an emulated CPU. The
# story of the cluster has daemons on Soft-RoCE.
OTHERS='^drtmd/cmd/drtmd/internal/(admin|config|control|daemon(/.*)?|endtoend|reproduce|service|status|workloads)$'

# ELSEWHERE: tests of these packages that run in the simulator, on shared memory alone, or without a device;
# `make test` runs them.
ELSEWHERE=(
  TestThousandsOfPeersShareOneQueuePair TestAtMostOnceAcrossBlackouts TestMeshInTheSimulator
  TestAtMostOnceUnderLossDuplicationAndReordering TestPortsOutlastAnOutageOfAnyLength
  TestSameSeedSameRun TestWindowBoundsWhatIsInFlightToASlowReceiver
  TestKilledAtAnyInstantIsAllOrNothing TestKilledCommitIsAllOrNothing
  TestCrashAtEveryStepIsAllOrNothing TestReplayCommandFailsInTheSameEvent
  TestSimHashIsThatOfEveryProcess TestFaultsThatDidNothingAreNamed
  TestSimDocumentSaysWhatTheRunTook TestEveryStepDocumentSaysWhatTheRunsTook
  TestInterruptedRunsReportAndExit130 TestValuesThatNoFlagTakes TestTimesAndNumbersOfSettings
  TestCheckSaysTheVerdictAndExitsByIt TestFlowsExecuteAtMostOnce TestMutationsOfFlowsAreCaught
  TestRandomWritesOverflowASetEarly TestSimRunsEveryOrder
  TestRunThatCannotSettleReportsAndExitsWith1 TestARunThatIsTooLargeToBeCheckedKeepsItsHistory
  TestHADESWorkloadsAreProved
)
# Parts of tests that are named after another transport, too.
OTHER_TRANSPORTS='^(shm|sim)$'

# skipped: all these as a regular expression; a test that is not there any more is an error.
skipped() {
  local name
  for name in "${ELSEWHERE[@]}"; do
    grep -rqs --include='*_test.go' "^func $name(" verbs htm cmd ||
      die "no test is named $name" "mend ELSEWHERE in scripts/test-rxe.sh"
  done
  (IFS='|' && printf '^(%s)$|./%s|././%s\n' "${ELSEWHERE[*]}" "$OTHER_TRANSPORTS" "$OTHER_TRANSPORTS")
}

# packages: import paths below verbs, htm and cmd whose tests depend on verbs/ibv, one a line.
packages() {
  scripts/go list -test -f '{{.ImportPath}}{{range .Deps}} {{.}}{{end}}' "${SCOPE[@]}" |
    awk '$1 ~ /\.test$/ { for (i = 2; i <= NF; i++)
      if ($i ~ /^drtmd\/verbs\/ibv($| )/) { sub(/\.test$/, "", $1); print $1; next } }' |
    grep -vE "$OTHERS"
}

# build_tests: BIN/drtmd, and BIN/tests/PACKAGE/x.test for each package, with its testdata.
build_tests() {
  local package dir all
  rm -rf "$BIN"
  mkdir -p "$BIN/tests"
  [[ ! -d cmd/drtmd || -z $(ls cmd/drtmd/*.go 2>/dev/null) ]] ||
    scripts/go build '-ldflags=-s -w' -o "$BIN/drtmd" ./cmd/drtmd
  ((${#WANTED[@]} == 0)) || return 0
  mapfile -t all < <(packages)
  ((${#all[@]} > 0)) || return 0
  scripts/go test -c '-ldflags=-s -w' -o "$BIN/" "${all[@]}" # two of one name are an error
  for package in "${all[@]}"; do
    dir=$BIN/tests/$package
    mkdir -p "$dir"
    mv "$BIN/${package##*/}.test" "$dir/x.test"
    [[ ! -d ${package#drtmd/}/testdata ]] || cp -r "${package#drtmd/}/testdata" "$dir/"
  done
}

# test_binaries: runs them all, in the guest or here.
test_binaries() {
  local command flags=() skip
  skip=$(skipped)
  [[ -n $(find "$BIN/tests" -name x.test) ]] ||
    die "no test in ${SCOPE[*]} reaches verbs/ibv" "scripts/go list -test ${SCOPE[*]}"
  if ((NATIVE)); then
    command=(env "PATH=$REPO/$BIN:$PATH" scripts/rxe-vm/guest/tests "$BIN/tests" "$PATTERN" "$skip")
  else
    [[ ! -e $BIN/drtmd ]] || flags=(--copy "$BIN/drtmd")
    command=("$VM" --timeout "$GUEST_SECONDS" --memory 2048 --copy "$BIN/tests"
      --copy scripts/rxe-vm/guest/tests:run-tests "${flags[@]}" -- run-tests tests "$PATTERN" "$skip")
  fi
  record "test binaries" "${command[@]}"
}

# record NAME COMMAND...: starts it when there is room, AT_ONCE at a time. If there is more than one, what
# each prints is shown when it has ended, as a whole.
record() {
  local name=$1 number=${#NAMES[@]}
  shift
  ((${#RUNNING[@]} < AT_ONCE)) || one_ends
  NAMES+=("$name") STARTED+=("$SECONDS")
  echo "... $name"
  if ((AT_ONCE == 1)); then
    (exec setsid bash -c "$TIMED" "$OUTPUTS/$number.times" "$@") 2>&1 &
  else
    (exec setsid bash -c "$TIMED" "$OUTPUTS/$number.times" "$@") >"$OUTPUTS/$number" 2>&1 &
  fi
  RUNNING[$!]=$number
}

# TIMED runs a command, and writes the times that bash gives of it to the file $0. A signal for both ends the command.
# shellcheck disable=SC2016  # expanded by that bash
TIMED='trap : INT TERM; "$@"; status=$?; times >"$0"; exit "$status"'

# cpu_seconds FILE: the seconds of a CPU that the command of TIMED has used.
cpu_seconds() {
  awk -F '[ms ]+' 'NR == 2 { printf "%d", 60 * ($1 + $3) + $2 + $4 }' "$1" 2>/dev/null || true
}

# one_ends: waits until one that runs has ended, shows what it printed, and notes how it ended.
one_ends() {
  local pid status=0 number took
  # wait -n does not see one that a signal has ended before.
  for pid in "${!RUNNING[@]}" ""; do
    [[ -z $pid ]] || kill -0 "$pid" 2>/dev/null || break
  done
  if [[ -n $pid ]]; then
    wait "$pid" || status=$?
  else
    wait -n -p pid "${!RUNNING[@]}" || status=$?
  fi
  number=${RUNNING[$pid]}
  unset "RUNNING[$pid]"
  took="$((SECONDS - STARTED[number])) s, CPU $(cpu_seconds "$OUTPUTS/$number.times") s"
  echo "=== ${NAMES[number]}"
  ((AT_ONCE == 1)) || cat "$OUTPUTS/$number"
  if ((status == 0)); then
    RESULTS+=("ok    ${NAMES[number]}  $took")
  else
    RESULTS+=("FAIL  ${NAMES[number]}  $took, status $status")
  fi
}

# end_all: ends what runs, each with its process group; the guests end with it.
end_all() {
  local pid
  for pid in "${!RUNNING[@]}"; do kill -- "-$pid" 2>/dev/null || true; done
  wait
  rm -rf "$OUTPUTS"
}

# header FILE KEY DEFAULT: the value of a line `# KEY: VALUE` of a story.
header() {
  local value
  value=$(sed -n "s/^# $2: //p" "$1" | head -n 1)
  printf '%s\n' "${value:-$3}"
}

# story FILE: runs one story in guests of its own, with the test binaries that it names.
story() {
  local file=$1 path flags
  flags=(--nodes "$(header "$file" nodes 1)" --timeout "$(header "$file" timeout 120)"
    --copy "$file:story" --copy "$STORIES/lib/story.sh")
  [[ ! -e $BIN/drtmd ]] || flags+=(--copy "$BIN/drtmd")
  [[ $(header "$file" rxe yes) != no ]] || flags+=(--no-rxe)
  for path in $(header "$file" copy ""); do flags+=(--copy "$path"); done
  for path in $(header "$file" tests ""); do
    scripts/go test -c '-ldflags=-s -w' -o "$BIN/${path##*/}.test" "$path"
    flags+=(--copy "$BIN/${path##*/}.test")
  done
  record "story $(basename "$file" .sh)" "$VM" "${flags[@]}" -- bash /work/story
}

# in_order: the names of all stories, those of LONGEST first.
in_order() {
  local file
  { printf '%s\n' "${LONGEST[@]}"; for file in "$STORIES"/*.sh; do basename "$file" .sh; done; } | awk '!seen[$0]++'
}

stories() {
  local name
  for name in $(in_order); do
    ((${#WANTED[@]} == 0)) || [[ " ${WANTED[*]} " == *" $name "* ]] || continue
    story "$STORIES/$name.sh"
  done
  ((${#WANTED[@]} > 0)) || record "self-test of the guest" scripts/rxe-vm/selftest.sh
}

# summary: one line per result, then the count.
summary() {
  local failed
  echo "=== summary"
  printf '%s\n' "${RESULTS[@]}"
  failed=$(printf '%s\n' "${RESULTS[@]}" | grep -c ^FAIL || true)
  printf '%s passed, %s failed\n' $((${#RESULTS[@]} - failed)) "$failed"
  ((failed == 0 && ${#RESULTS[@]} > 0))
}

main() {
  NATIVE=0 PATTERN=. WANTED=() SCOPE=(./verbs/... ./htm/... ./cmd/...) STORIES_TOO=1
  while (($# > 0)); do
    case $1 in
      --help | -h) print_help "$0" && exit 0 ;;
      --native) NATIVE=1 STORIES_TOO=0 ;;
      --run | --package)
        (($# > 1)) || usage_error "$1 takes a value"
        STORIES_TOO=0
        [[ $1 == --run ]] && PATTERN=$2 || SCOPE=("$2")
        shift ;;
      -*) usage_error "unknown flag '$1'" ;;
      *) [[ -e $STORIES/$1.sh ]] || usage_error "no story '$1' in $STORIES"
        WANTED+=("$1") ;;
    esac
    shift
  done
  ((NATIVE)) || scripts/bootstrap.sh rxe
  compile_once
  build_tests
  ((STORIES_TOO && ${#WANTED[@]} != 1)) || AT_ONCE=1
  OUTPUTS=$(mktemp -d)
  trap end_all EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM HUP
  ((${#WANTED[@]} > 0)) || test_binaries
  ((STORIES_TOO == 0)) || stories
  while ((${#RUNNING[@]} > 0)); do one_ends; done
  summary
}

main "$@"
