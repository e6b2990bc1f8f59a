#!/usr/bin/env bash
# selftest.sh: checks that scripts/rxe-vm/run keeps its promises: status, output, files in and
# out, time limit, a guest that dies, an interrupt, two runs at once. Takes about a minute.
#
# Usage: scripts/rxe-vm/selftest.sh
set -u

HERE=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=scripts/rxe-vm/tests/lib/story.sh
. "$HERE/tests/lib/story.sh"

WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
vm() { timeout 120 "$HERE/run" "$@" 2>&1; }
is() { [[ $1 == "$2" ]] || { printf 'got %s\nnot %s\n' "$1" "$2" && return 1; }; }

# leftovers: what a run must not leave on the host. Others may run at the same time, elsewhere.
export TMPDIR=$WORK/tmp
mkdir "$TMPDIR"
leftovers() { compgen -G "$TMPDIR/rxe-vm.??????" || true; }

check usage_without_command_exits_2 exits 2 "$HERE/run"
check usage_unknown_flag_exits_2 exits 2 "$HERE/run" --nope 1 -- true
check usage_bad_number_exits_2 exits 2 "$HERE/run" --nodes 0 -- true
check usage_missing_file_is_named says "no such file: /nope" vm --copy /nope -- true

echo "in" >"$WORK/in file"
# A host program that needs libraries of its own goes in with them.
# shellcheck disable=SC2016  # expanded in the guest
vm --out "$WORK/out" --env "GREETING=a 'b' \$c" --copy "$WORK/in file:/data/x" \
  --copy "$(command -v grep):/bin/grep" -- bash -c \
  'echo "$GREETING"; echo err >&2; cp /data/x /out/y; grep -q in /data/x || exit 8; exit 7' \
  >"$WORK/output" &
first=$!
# shellcheck disable=SC2016  # expanded in the guest
vm --nodes 2 -- bash -c 'echo "hello"; [[ $NODE == 1 ]] || exit 3' >"$WORK/output2" &
second=$!
status=0
wait "$first" || status=$?
check status_is_the_commands is "$status" 7
check output_is_the_commands_alone is "$(<"$WORK/output")" $'a \'b\' $c\nerr'
check files_come_back is "$(cat "$WORK/out/y")" in
status=0
wait "$second" || status=$?
check status_is_the_first_failing_nodes is "$status" 3
check lines_name_their_node is "$(sort "$WORK/output2")" $'[1] hello\n[2] hello'

vm --timeout 12 -- sleep 1000 >"$WORK/late"
check time_limit_exits_124 is $? 124
check time_limit_says_so says "stopped after 12 s" cat "$WORK/late"
vm -- bash -c 'echo c >/proc/sysrq-trigger' >"$WORK/crash"
check crash_exits_125 is $? 125
check crash_shows_the_console says "sysrq triggered crash" cat "$WORK/crash"

# shellcheck disable=SC2016  # expanded in the guest
vm --nodes 2 --copy "$HERE/tests/lib/story.sh" -- bash -c '. /work/story.sh
  ping -c 1 -W 20 10.77.0.$((3 - NODE)) >/dev/null || exit 4
  ((NODE == 1)) || { sleep 10 && emulator_dies; } # the other one has to have seen this one
  for _ in {1..60}; do
    ping -c 1 -W 2 10.77.0.2 >/dev/null || { echo alone && exit 0; }
    sleep 1
  done; exit 5' >"$WORK/killed"
check guest_that_asks_is_killed is "$?" 0
check others_of_a_killed_guest_run_on says "[1] alone" cat "$WORK/killed"

"$HERE/run" -- sleep 1000 >"$WORK/interrupted" 2>&1 &
victim=$!
sleep 4
kill -TERM "$victim"
status=0
wait "$victim" || status=$?
check terminated_exits_143 is "$status" 143
check no_run_leaves_anything is "$(leftovers)" ""
story_ends
