#!/usr/bin/env bash
# packages_selftest.sh: what need_packages does where there is neither apt-get nor dpkg.
#
# Usage: scripts/lib/packages_selftest.sh
#
# It makes a PATH of its own with few programs on it. Exits 1 if something is not as it should.
set -euo pipefail

# shellcheck source=scripts/lib/common.sh
. "$(dirname "$0")/common.sh"
# shellcheck source=scripts/lib/packages.sh
. "$REPO/scripts/lib/packages.sh"

DIR=$(mktemp -d)
trap 'rm -rf "$DIR"' EXIT

# without_apt NAME...: need_packages with only cpio and shellcheck around, and a gcc that knows
# the headers of the C library.
without_apt() (
  # Root's folders too must not be searched.
  have_program() { command -v "$1" >/dev/null; }
  PATH=$DIR
  need_packages "$@"
)

# expect CODE TEXT NAME...: runs without_apt and checks its exit code and message.
expect() {
  local code=$1 text=$2 out rc=0
  shift 2
  out=$(without_apt "$@" 2>&1) || rc=$?
  [[ $rc == "$code" && $out == *"$text"* ]] ||
    die "need_packages $*: exit code $rc, not $code with '$text': $out" "see packages.sh"
}

for name in cpio shellcheck; do
  printf '#!/bin/bash\n' >"$DIR/$name"
done
cat >"$DIR/gcc" <<'END'
#!/bin/bash
[[ $* != *infiniband* ]]
END
chmod +x "$DIR"/*

expect 0 "" gcc libc6-dev cpio shellcheck
expect 1 "missing, and there is no apt-get here to install it: infiniband/verbs.h" \
  gcc libc6-dev libibverbs-dev
expect 1 "the program qemu-system-x86_64; the program ib_read_lat" cpio qemu-system-x86 perftest
say "passed"
