# shellcheck shell=bash
# packages.sh: installs distribution packages, quickly skipped when present. Sourced after
# common.sh. Debian 12 is tested; Ubuntu uses the same names and is untested. Where there is no
# dpkg or no apt-get, it looks for what the packages are needed for.

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

# have_program NAME: true if NAME is on PATH or among root's programs.
have_program() { PATH=$PATH:/usr/sbin:/sbin command -v "$1" >/dev/null; }

# compiles ARGUMENT...: true if gcc makes a program with these arguments.
compiles() {
  have_program gcc && gcc -o /dev/null -x c - "$@" <<<'int main(void) { return 0; }' 2>/dev/null
}

# content_of NAME: prints what a package of Debian is needed for here.
content_of() {
  case $1 in
    gcc | shellcheck | cpio | kmod) echo "the program $1" ;;
    golang-go) echo "the program go" ;;
    ca-certificates) echo "/etc/ssl/certs, the certificates of authorities" ;;
    libc6-dev) echo "the C library's headers, for gcc" ;;
    libibverbs-dev) echo "infiniband/verbs.h and libibverbs, for gcc" ;;
    ibverbs-providers) echo "libibverbs' driver of Soft-RoCE, rxe" ;;
    qemu-system-x86) echo "the program qemu-system-x86_64" ;;
    busybox-static) echo "the program busybox, linked statically" ;;
    iproute2) echo "the programs ip and rdma" ;;
    util-linux) echo "the program flock" ;;
    ibverbs-utils) echo "the program ibv_devinfo" ;;
    perftest) echo "the program ib_read_lat" ;;
    protobuf-compiler) echo "the program protoc" ;;
    chromium) echo "the program chromium" ;;
    *) echo "what the Debian package $1 contains" ;;
  esac
}

# have_content NAME: true if what a package is needed for is here, wherever it came from.
have_content() {
  case $1 in
    gcc | shellcheck | cpio | kmod | chromium) have_program "$1" ;;
    protobuf-compiler) have_program protoc ;;
    golang-go) have_program go ;;
    ca-certificates) compgen -G '/etc/ssl/certs/*' >/dev/null ||
      [[ -e /etc/pki/tls/certs/ca-bundle.crt ]] ;;
    libc6-dev) compiles -include stdlib.h ;;
    libibverbs-dev) compiles -include infiniband/verbs.h -libverbs ;;
    ibverbs-providers) [[ -e /etc/libibverbs.d/rxe.driver ]] ||
      compgen -G '/usr/lib*/libibverbs/librxe-*.so' >/dev/null ;;
    qemu-system-x86) have_program qemu-system-x86_64 ;;
    busybox-static) have_program busybox && ! ldd "$(command -v busybox)" >/dev/null 2>&1 ;;
    iproute2) have_program ip && have_program rdma ;;
    util-linux) have_program flock ;;
    ibverbs-utils) have_program ibv_devinfo ;;
    perftest) have_program ib_read_lat ;;
    *) return 1 ;;
  esac
}

# need_contents NAME...: goes on if what the packages are needed for is here, else says what is
# missing and ends.
need_contents() {
  local name missing=""
  for name in "$@"; do
    have_content "$name" || missing+="${missing:+; }$(content_of "$name")"
  done
  [[ -z $missing ]] || die "missing, and there is no apt-get here to install it: $missing" \
    "install that with your package manager, so that it is found on PATH or by gcc"
}

# need_packages NAME...: installs those that are missing, with root's rights.
need_packages() {
  have_packages "$@" 2>/dev/null && return 0
  if ! have_program apt-get || ! have_program dpkg-query; then
    need_contents "$@"
    return
  fi
  local name missing=()
  for name in "$@"; do have_packages "$name" || missing+=("$name"); done
  ((EUID == 0)) || have_program sudo || die "root is needed to install ${missing[*]}" \
    "run this as root, or install sudo, or: apt-get install ${missing[*]}"
  say "installing ${missing[*]}"
  [[ $(distribution) == debian ]] || say "untested on $(distribution): names are those of Debian 12"
  # Lists may be absent or name versions that left the mirror: refresh them, once.
  apt_quiet install -y --no-install-recommends "${missing[@]}" >/dev/null 2>&1 && return 0
  apt_quiet update || die "apt-get update did not work" "see its message above; is there a network?"
  apt_quiet install -y --no-install-recommends "${missing[@]}" >/dev/null ||
    die "could not install ${missing[*]}" \
      "apt-get install ${missing[*]}   # and see what it says"
}
