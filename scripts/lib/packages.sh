# shellcheck shell=bash
# packages.sh: installs distribution packages, quickly skipped when present. Sourced after
# common.sh. Debian 12 is tested; Ubuntu uses the same names and is untested.

# have_packages NAME...: true if all of them are installed. One call, some milliseconds.
have_packages() {
  local states
  states=$(dpkg-query -W -f '${db:Status-Status}\n' "$@" 2>/dev/null) || return 1
  ! grep -qvx installed <<<"$states"
}

# distribution: the ID word of /etc/os-release, or "unknown".
distribution() {
  # shellcheck disable=SC1091
  (. /etc/os-release 2>/dev/null && printf '%s\n' "${ID:-unknown}") || echo unknown
}

apt_quiet() {
  as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300 \
    -o Dpkg::Use-Pty=0 "$@"
}

# need_packages NAME...: installs those that are missing, with root's rights.
need_packages() {
  have_packages "$@" 2>/dev/null && return 0
  command -v apt-get >/dev/null ||
    die "these packages are needed and there is no apt-get here: $*" \
      "install what they contain with your package manager, and put it on PATH"
  local name missing=()
  for name in "$@"; do have_packages "$name" || missing+=("$name"); done
  say "installing ${missing[*]}"
  [[ $(distribution) == debian ]] || say "untested on $(distribution): names are those of Debian 12"
  # Lists may be absent or name versions that left the mirror: refresh them, once.
  apt_quiet install -y --no-install-recommends "${missing[@]}" >/dev/null 2>&1 && return 0
  apt_quiet update || die "apt-get update did not work" "see its message above; is there a network?"
  apt_quiet install -y --no-install-recommends "${missing[@]}" >/dev/null ||
    die "could not install ${missing[*]}" \
      "apt-get install ${missing[*]}   # and see what it says"
}
