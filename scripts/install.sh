#!/usr/bin/env bash
# install.sh: installs drtmd, or removes it.
#
# Usage: scripts/install.sh [--remove]
#
# Environment:
#   PREFIX    the folder to install into, an absolute path (default /usr/local)
#   DESTDIR   a folder to use instead of / (default none), as package builders do
#
# It installs below PREFIX: bin/drtmd; the systemd units lib/systemd/system/drtmd.service and
# drtmd-hardened.service, without enabling them; share/man/man1/drtmd*.1; and the completions of bash,
# zsh and fish in share. It changes nothing outside PREFIX; --remove keeps the configuration and the
# state of nodes.
#
# Exit codes: 0 done, 1 failed, 2 usage.
set -euo pipefail

# shellcheck source=scripts/lib/common.sh
. "$(dirname "$0")/lib/common.sh"
cd "$REPO"

PREFIX=${PREFIX:-/usr/local}
DESTDIR=${DESTDIR:-}
ROOT=$DESTDIR$PREFIX
UNITS=(drtmd.service drtmd-hardened.service)

# completions: their files, below share.
completions() {
  printf '%s\n' bash-completion/completions/drtmd zsh/site-functions/_drtmd \
    fish/vendor_completions.d/drtmd.fish
}

# writable: fails before any change if the folder cannot be written.
writable() {
  local folder=$ROOT
  while [[ ! -e $folder ]]; do folder=$(dirname "$folder"); done
  [[ -w $folder ]] || die "$folder cannot be written" "sudo make install, or PREFIX=\$HOME/.local"
}

install_all() {
  local unit
  need_drtmd
  writable
  install -D -m 755 bin/drtmd "$ROOT/bin/drtmd"
  for unit in "${UNITS[@]}"; do
    sed "s|/usr/local/bin/drtmd|$PREFIX/bin/drtmd|" "scripts/systemd/$unit" |
      install -D -m 644 /dev/stdin "$ROOT/lib/systemd/system/$unit"
  done
  (umask 022 && bin/drtmd manual "$ROOT/share")
  say "installed $ROOT/bin/drtmd, with units, man pages and completions; make uninstall with the same" \
    "PREFIX and DESTDIR removes them"
}

remove_all() {
  local file
  writable
  rm -f "$ROOT/bin/drtmd" "$ROOT"/share/man/man1/drtmd.1 "$ROOT"/share/man/man1/drtmd-*.1
  for file in "${UNITS[@]}"; do rm -f "$ROOT/lib/systemd/system/$file"; done
  while read -r file; do rm -f "$ROOT/share/$file"; done < <(completions)
  say "removed drtmd from $ROOT; /etc/drtmd and /var/lib/drtmd stay"
}

[[ $PREFIX == /* && ( -z $DESTDIR || $DESTDIR == /* ) ]] ||
  usage_error "PREFIX and DESTDIR are absolute paths, not '$PREFIX' and '$DESTDIR'"
case "$#:${1:-}" in
  0:) install_all ;;
  1:--remove) remove_all ;;
  1:--help | 1:-h) print_help "$0" ;;
  *) usage_error "unknown argument '$1'" ;;
esac
