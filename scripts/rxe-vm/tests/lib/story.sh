# shellcheck shell=bash
# story.sh: what the stories share. A story is a shell script that runs in the guest; its header
# tells scripts/test-rxe.sh how to boot it:
#   # nodes: N         so many guests (1)
#   # rxe: no          rxe0 is not set up beforehand
#   # copy: PATH...    files of the work tree that it needs, put into /work under their own name
#   # tests: PACKAGE... Go packages whose test binaries it runs, as NAME.test
#   # timeout: S       its time limit in seconds (120)
# It sources this file, calls `check` for each thing that must hold, and ends with `story_ends`.

PASSED=0 FAILED=0

# check NAME COMMAND...: one thing that must hold, printed as a line of go test -v is.
check() {
  local name=$1 output
  shift
  if output=$("$@" 2>&1); then
    PASSED=$((PASSED + 1))
    printf -- '--- PASS: %s\n' "$name"
  else
    FAILED=$((FAILED + 1))
    printf -- '--- FAIL: %s\n%s\n' "$name" "${output//$'\n'/$'\n'    }"
  fi
}

# says WORDS COMMAND...: COMMAND's output contains WORDS; the output is shown if not.
says() {
  local words=$1 output
  shift
  output=$("$@" 2>&1) || true
  [[ $output == *"$words"* ]] || { printf 'expected: %s\ngot:\n%s\n' "$words" "$output" && return 1; }
}

# exits STATUS COMMAND...: COMMAND ends with this exit status.
exits() {
  local want=$1 output got=0
  shift
  output=$("$@" 2>&1) || got=$?
  ((got == want)) || { printf 'status %s, not %s\n%s\n' "$got" "$want" "$output" && return 1; }
}

# test_passes BINARY TEST [FLAG]...: this Go test runs and passes; skipped is not passed.
test_passes() {
  local output status=0
  output=$("$1" -test.v -test.run "^$2\$" "${@:3}" 2>&1) || status=$?
  ((status == 0)) && [[ $output == *"--- PASS: $2 ("* ]] && return 0
  printf 'status %s\n%s\n' "$status" "$output"
  return 1
}

# eventually SECONDS COMMAND...: COMMAND succeeds within so long; it is tried again and again, and
# what it printed last is shown if it never does.
eventually() {
  local end=$((SECONDS + $1)) output
  shift
  until output=$("$@" 2>&1); do
    ((SECONDS < end)) || { printf '%s\n' "$output" && return 1; }
    sleep 0.2
  done
}

# emulator_dies: has this guest's emulator killed, in the middle of whatever the guest does. Never
# comes back. Node 1 must not: it is the others' network.
emulator_dies() {
  echo kill >/dev/vport0p3
  while :; do sleep 3600; done
}

# emulator_pauses: has this guest stopped for two seconds, its clock included, in the middle of
# whatever it does.
emulator_pauses() { echo pause >/dev/vport0p3; }

# story_ends: the exit status of the story.
story_ends() { ((FAILED == 0 && PASSED > 0)); exit; }
