#!/usr/bin/env bash
# verify-clone.sh: clones the last commit into a temporary folder and runs the README's commands there, as a
# new user does.
#
# Usage: scripts/verify-clone.sh
#
# The commands are the lines of each block ```sh in README.md that follows a line <!-- verified -->. They run
# in the clone, in order, with nothing from this folder except git's history; installed packages stay. Exit
# codes: 0 all succeeded, 1 one failed.
set -euo pipefail

# shellcheck source=scripts/lib/common.sh
. "$(dirname "$0")/lib/common.sh"

# commands README: the lines of its verified blocks.
commands() {
  awk '/^<!-- verified -->$/ { armed = 1; next }
    armed && /^```sh$/ { inside = 1; armed = 0; next }
    /^```$/ { inside = 0 }
    inside && NF { print }
    { armed = 0 }' "$1"
}

main() {
  [[ ${1:-} != --help ]] || { print_help "$0" && exit 0; }
  local clone lines line
  clone=$(mktemp -d)/drtmd
  # shellcheck disable=SC2064  # the folder of now
  trap "chmod -R u+w '${clone%/*}' && rm -rf '${clone%/*}'" EXIT
  [[ -z $(git -C "$REPO" status --porcelain) ]] || say "note: uncommitted changes are left out"
  git clone --quiet --no-hardlinks "$REPO" "$clone"
  cd "$clone"
  mapfile -t lines < <(commands README.md)
  ((${#lines[@]} > 0)) || die "README.md has no verified command" \
    "put <!-- verified --> on the line before its block of commands"
  for line in "${lines[@]}"; do
    say "running: $line"
    bash -euo pipefail -c "$line" </dev/null || die "'$line' did not succeed in a fresh clone"
  done
  say "${#lines[@]} commands succeeded in a fresh clone"
}

main "$@"
