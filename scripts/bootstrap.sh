#!/usr/bin/env bash
# bootstrap.sh: installs the packages and tools that a task of the project needs, if they are missing.
#
# Usage: scripts/bootstrap.sh TASK...
#
#   go      the Go toolchain: the one on PATH if it is new enough, else one in .cache
#   build   go, the C compiler and libibverbs
#   lint    build, shellcheck and protoc
#   browser build, and Chromium
#   rxe     the virtual machine: qemu, busybox, perftest and the packages of its files
#
# Debian 12 is tested. Ubuntu has the same package names and is untested. The script installs packages
# with apt-get, as root or with sudo. If all are present, it asks for nothing and takes milliseconds. On
# other distributions it looks for the programs and headers, and lists those that are missing.
set -euo pipefail

# shellcheck source=scripts/lib/common.sh
. "$(dirname "$0")/lib/common.sh"
# shellcheck source=scripts/lib/packages.sh
. "$REPO/scripts/lib/packages.sh"
# shellcheck source=scripts/lib/toolchain.sh
. "$REPO/scripts/lib/toolchain.sh"

BUILD_PACKAGES=(gcc libc6-dev libibverbs-dev ibverbs-providers)
LINT_PACKAGES=(shellcheck protobuf-compiler)
BROWSER_PACKAGES=(chromium)
RXE_PACKAGES=(qemu-system-x86 busybox-static cpio xz-utils kmod iproute2 util-linux ibverbs-providers
  ibverbs-utils perftest)

need_go() { find_go >/dev/null || fetch_go; }

main() {
  (($# > 0)) || usage_error "no task named"
  local task
  for task in "$@"; do
    case $task in
      go) need_go ;;
      build) need_packages "${BUILD_PACKAGES[@]}" && need_go ;;
      lint) need_packages "${BUILD_PACKAGES[@]}" "${LINT_PACKAGES[@]}" && need_go ;;
      browser) need_packages "${BUILD_PACKAGES[@]}" "${BROWSER_PACKAGES[@]}" && need_go ;;
      rxe) need_packages "${RXE_PACKAGES[@]}" ;;
      --help | -h) print_help "$0" ;;
      *) usage_error "unknown task '$task'" ;;
    esac
  done
}

main "$@"
