#!/usr/bin/env bash
# install_selftest.sh: installs drtmd into a throw-away root and removes it again.
#
# Usage: scripts/lib/install_selftest.sh      (bin/drtmd has been built)
set -euo pipefail

cd "$(dirname "$0")/../.."
ROOT=$(mktemp -d)
trap 'rm -rf "$ROOT"' EXIT
fail() { printf 'install_selftest: %s\n' "$1" >&2 && exit 1; }

export DESTDIR=$ROOT PREFIX=/opt/drtmd
mkdir -p "$ROOT/opt/drtmd/share/man/man1"
echo other >"$ROOT/opt/drtmd/share/man/man1/other.1"
scripts/install.sh 2>"$ROOT/said"
grep -q "installed $ROOT/opt/drtmd/bin/drtmd" "$ROOT/said" || fail "it does not say what it did"
top=$ROOT/opt/drtmd
[[ $("$top/bin/drtmd" --version) == "$(bin/drtmd version)" ]] || fail "bin/drtmd is another one"
for command in bench check config serve sim status up; do
  grep -q '^\.SH SYNOPSIS' "$top/share/man/man1/drtmd-$command.1" || fail "no man page of drtmd $command"
done
for unit in drtmd drtmd-hardened; do
  grep -q '^ExecStart=/opt/drtmd/bin/drtmd serve' "$top/lib/systemd/system/$unit.service" ||
    fail "$unit.service starts another binary"
done
# The completions are scripts that their shell takes.
bash -n "$top/share/bash-completion/completions/drtmd" || fail "bash cannot read its completions"
grep -q '^#compdef drtmd' "$top/share/zsh/site-functions/_drtmd" || fail "no completions for zsh"
grep -q 'complete -c drtmd' "$top/share/fish/vendor_completions.d/drtmd.fish" ||
  fail "no completions for fish"
[[ -z $(find "$top" -type f ! -perm -o=r) ]] || fail "others cannot read what was installed"
scripts/install.sh --remove 2>"$ROOT/said"
left=$(find "$top" -type f)
[[ $left == "$top/share/man/man1/other.1" ]] || fail "left behind: $left"
status=0
PREFIX=relative scripts/install.sh 2>"$ROOT/said" || status=$?
((status == 2)) || fail "a relative PREFIX is taken: status $status"
echo "install_selftest: ok"
