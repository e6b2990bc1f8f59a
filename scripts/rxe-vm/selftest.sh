#!/usr/bin/env bash
# selftest.sh: checks that scripts/rxe-vm/run keeps its promises: status, output, files in and
# out, time limit, a guest that dies, an interrupt, two runs at once. Takes half a minute.
#
# Usage: scripts/rxe-vm/selftest.sh
set -u

HERE=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=scripts/rxe-vm/tests/lib/story.sh
. "$HERE/tests/lib/story.sh"

WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
vm() { timeout 300 "$HERE/run" "$@" 2>&1; }
is() { [[ $1 == "$2" ]] || { printf 'got %s\nnot %s\n' "$1" "$2" && return 1; }; }

# has_the_rate LOG: the guest's clock runs at the rate that its kernel's command line names, if the host knew it.
has_the_rate() {
  local rate
  rate=$(sed -nE 's/.*Kernel command line:.* tsc_early_khz=([0-9]+)([0-9]{3}) .*/\1.\2/p' "$1")
  [[ -z $rate ]] || says "tsc: Detected $rate MHz" cat "$1"
}

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
  'echo "$GREETING"; echo err >&2; cp /data/x /out/y; dmesg >/out/log; grep -q in /data/x || exit 8; exit 7' \
  >"$WORK/output" &
first=$!
# Node 2 crashes once node 1 is there, which has ten seconds from then on.
# shellcheck disable=SC2016  # expanded in the guest
vm --nodes 2 --no-rxe -- bash -c 'echo "hello"
  until ((NODE == 1)) || ping -c 1 -W 2 10.77.0.1 >/dev/null; do :; done
  ((NODE == 1)) || echo c >/proc/sysrq-trigger' >"$WORK/crash" &
second=$!
status=0
wait "$first" || status=$?
check status_is_the_commands is "$status" 7
check output_is_the_commands_alone is "$(<"$WORK/output")" $'a \'b\' $c\nerr'
check files_come_back is "$(cat "$WORK/out/y")" in
check clock_runs_at_the_rate_that_it_is_given has_the_rate "$WORK/out/log"
status=0
wait "$second" || status=$?
check status_is_the_first_failing_nodes_125_of_a_crash is "$status" 125
check crash_shows_the_console says "sysrq triggered crash" cat "$WORK/crash"
check lines_name_their_node is "$(grep '^\[' "$WORK/crash" | sort)" $'[1] hello\n[2] hello'

# Node 2 asks to be killed once node 1 has seen it.
# shellcheck disable=SC2016  # expanded in the guest
vm --nodes 2 --copy "$HERE/tests/lib/story.sh" -- bash -c '. /work/story.sh
  if ((NODE == 2)); then
    eventually 60 wget -q -O /dev/null http://10.77.0.1/seen || exit 4
    emulator_dies
  fi
  mkdir /tmp/board && httpd -p 10.77.0.1:80 -h /tmp/board
  eventually 60 ping -c 1 -W 2 10.77.0.2 || exit 4
  touch /tmp/board/seen
  for _ in {1..60}; do
    ping -c 1 -W 2 10.77.0.2 >/dev/null || { echo alone && exit 3; }
    sleep 1
  done; exit 5' >"$WORK/killed" &
killed=$!
vm --timeout 5 -- sleep 1000 >"$WORK/late" &
late=$!
"$HERE/run" -- sleep 1000 >"$WORK/interrupted" 2>&1 &
victim=$!
sleep 4
kill -TERM "$victim"
status=0
wait "$victim" || status=$?
check terminated_exits_143 is "$status" 143
status=0
wait "$late" || status=$?
check time_limit_exits_124 is "$status" 124
check time_limit_says_so says "stopped after 5 s" cat "$WORK/late"
status=0
wait "$killed" || status=$?
check status_is_that_of_the_node_that_was_not_killed is "$status" 3
check others_of_a_killed_guest_run_on says "[1] alone" cat "$WORK/killed"
check no_run_leaves_anything is "$(leftovers)" ""
story_ends
