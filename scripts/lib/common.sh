# shellcheck shell=bash
# common.sh: what every script of the project shares. Sourced, never run.
#
# Messages go to stderr and start with the script's name; a message about a failure says what
# to do next. Exit codes: 0 done, 1 failed, 2 usage, 130 interrupted.

# The top of the work tree.
# shellcheck disable=SC2034  # used by the scripts that source this file
REPO=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

say() { printf '%s: %s\n' "${0##*/}" "$*" >&2; }

# die MESSAGE [HINT]: a failure, with the next step on a line of its own.
die() {
  say "$1"
  [[ $# -lt 2 ]] || printf '  next: %s\n' "$2" >&2
  exit 1
}

# compile_once: from here on every go command compiles with the profile of hot paths, as `make build` does. Where
# some do and some do not, all that drtmd links is compiled twice: two minutes of CPU on an empty cache.
compile_once() { export GOFLAGS="${GOFLAGS:-} '-pgo=$REPO/cmd/drtmd/default.pgo'"; }

# need_drtmd: bin/drtmd of this tree has been built.
need_drtmd() { [[ -x $REPO/bin/drtmd ]] || die "bin/drtmd is not built" "make build"; }

# usage_error MESSAGE: a wrong command line.
usage_error() {
  say "$1"
  printf '  next: see %s --help\n' "$0" >&2
  exit 2
}

# print_help FILE: the comment block at the top of FILE, without its markers.
print_help() { awk 'NR > 1 { if (!/^#/) exit; sub(/^# ?/, ""); print }' "$1"; }

# as_root COMMAND...: runs COMMAND with root's rights, by sudo where needed.
as_root() {
  if ((EUID == 0)); then
    "$@"
  elif command -v sudo >/dev/null; then
    sudo "$@"
  else
    die "root is needed for: $*" "run it as root, or install sudo"
  fi
}
