# shellcheck shell=bash
# kernel.sh: gets the guest's kernel. Sourced by run, after common.sh and packages.sh.
#
# The package is downloaded and unpacked into the cache, never installed: the host keeps its
# kernel, its initramfs and its boot loader as they are.

# The one place that pins the guest's kernel. What the conformance suite's table of deviations
# says was measured on exactly this build: whoever changes it runs `make test-rxe` and corrects
# the table. It is the build of a Debian point release, since those stay on the mirror longest.
PINNED_RELEASE=6.1.0-50-amd64
PINNED_VERSION=6.1.176-1
PINNED_SHA256=7b5597492a0a65aee61985a492e6bcc3f2cde830072a0e3b3d8c7e1b90279bd3

# What the guest can do without; leaving it out keeps the cache at a third.
UNWANTED_DIRS=(sound drivers/{gpu,media,staging,usb,scsi,iio,hid,input,mmc,mtd,isdn,video}
  drivers/{hwmon,ata,bluetooth,thunderbolt,nvme,md,target} drivers/net/{wireless,ethernet})

# want_kernel [RELEASE]: sets KERNEL_RELEASE, KERNEL_PINNED (1 or 0), KERNEL_DIR, which holds vmlinuz and
# the modules of that release, downloading them on first use, and KERNEL_IMAGE, what qemu boots.
want_kernel() {
  find_kernel "$@"
  KERNEL_IMAGE=$KERNEL_DIR/vmlinux
  [[ -e $KERNEL_IMAGE ]] || decompress "$KERNEL_DIR/vmlinuz" "$KERNEL_IMAGE" || KERNEL_IMAGE=$KERNEL_DIR/vmlinuz
}

# decompress VMLINUZ VMLINUX: writes the kernel that VMLINUZ is compressed from, all or nothing; false if it is not
# compressed by xz, as those of Debian are. An emulated CPU decompresses a kernel at each boot in a third of the
# time that the whole boot takes. The offsets are those of the header in Documentation/arch/x86/boot.rst.
decompress() {
  local setup_sects payload length
  setup_sects=$(od -An -tu1 -j $((0x1f1)) -N 1 "$1")
  read -r payload length < <(od -An -tu4 -j $((0x248)) -N 8 "$1")
  dd if="$1" bs=1M iflag=skip_bytes,count_bytes skip=$(((setup_sects + 1) * 512 + payload)) count="$length" \
    status=none | xz -dc --single-stream >"$2.new" 2>/dev/null && mv "$2.new" "$2" && return 0
  rm -f "$2.new"
  return 1
}

# find_kernel [RELEASE]: want_kernel without KERNEL_IMAGE.
find_kernel() {
  KERNEL_RELEASE=${1:-$PINNED_RELEASE}
  KERNEL_PINNED=0
  [[ $KERNEL_RELEASE != "$PINNED_RELEASE" ]] || KERNEL_PINNED=1
  KERNEL_DIR=$CACHE/kernel-$KERNEL_RELEASE
  [[ -e $KERNEL_DIR/vmlinuz ]] && return 0
  if ! get_kernel; then
    [[ $# -eq 0 || -z $1 ]] || die "no kernel package for $1" "apt-cache search '^linux-image-6.1'"
    use_newest_kernel
  fi
}

# use_newest_kernel: the pinned build is not to be had; says so and takes the newest instead.
use_newest_kernel() {
  local newest
  newest=$(newest_release)
  [[ -n $newest ]] || die "linux-image-$PINNED_RELEASE cannot be downloaded, nor any other kernel" \
    "is there a network? on Debian 12, does apt-cache policy linux-image-amd64 name a candidate?"
  say "NOTE: linux-image-$PINNED_RELEASE=$PINNED_VERSION has left the mirror: using $newest"
  say "NOTE: the table of rxe deviations was measured on the pinned kernel and is only reported"
  say "  next: pin the new build in scripts/rxe-vm/lib/kernel.sh (three PINNED_ lines), run"
  say "  make test-rxe, and correct the table"
  KERNEL_RELEASE=$newest
  KERNEL_PINNED=0
  KERNEL_DIR=$CACHE/kernel-$KERNEL_RELEASE
  [[ -e $KERNEL_DIR/vmlinuz ]] || get_kernel || die "could not download linux-image-$newest" \
    "apt-get download linux-image-$newest   # and see what it says"
}

# newest_release: the newest 6.1 kernel of Debian, or Ubuntu's generic one (untested).
newest_release() {
  if [[ $(distribution) == ubuntu ]]; then
    apt-cache depends linux-image-generic 2>/dev/null |
      sed -n 's/.*Depends: linux-image-\([0-9].*-generic\)$/\1/p' | sort -V | tail -n 1
    return
  fi
  apt-cache pkgnames linux-image-6.1.0- | sed -n 's/^linux-image-\(6\.1\.0-[0-9]*-amd64\)$/\1/p' |
    sort -V | tail -n 1
}

# kernel_packages: the packages that hold the image and the modules. Debian has one; Ubuntu
# keeps rdma_rxe in a package of its own.
kernel_packages() {
  if [[ $KERNEL_RELEASE == *-generic ]]; then
    printf '%s\n' "linux-image-$KERNEL_RELEASE" "linux-modules-$KERNEL_RELEASE" \
      "linux-modules-extra-$KERNEL_RELEASE"
  elif ((KERNEL_PINNED)); then
    echo "linux-image-$KERNEL_RELEASE=$PINNED_VERSION"
  else
    echo "linux-image-$KERNEL_RELEASE"
  fi
}

# get_kernel: downloads and unpacks KERNEL_RELEASE into KERNEL_DIR, all or nothing; false when
# the packages cannot be had.
get_kernel() {
  local work packages
  mapfile -t packages < <(kernel_packages)
  work=$(mktemp -d "$CACHE/get-kernel.XXXXXX")
  say "downloading ${packages[*]} (once, about 70 MB; unpacked, not installed)"
  if ! download "$work" "${packages[@]}"; then
    rm -rf "$work"
    return 1
  fi
  unpack "$work"
  rm -rf "$KERNEL_DIR"
  mv "$work/kernel" "$KERNEL_DIR"
  rm -rf "$work"
}

# download DIR PACKAGE...: refreshes the package lists once if the first try fails.
download() (
  cd "$1" || return 1
  shift
  # apt's own sandbox user cannot write into a folder of ours.
  get() { apt-get -qq -o APT::Sandbox::User=root download "$@"; }
  get "$@" 2>/dev/null || { apt_quiet update && get "$@"; }
)

# unpack DIR: makes DIR/kernel from the packages in DIR.
unpack() {
  local dir=$1 deb exclude
  exclude=("${UNWANTED_DIRS[@]/#/--exclude=*/kernel/}")
  if ((KERNEL_PINNED)); then
    (cd "$dir" && echo "$PINNED_SHA256  $(echo linux-image-*.deb)" | sha256sum --quiet -c -) ||
      die "the downloaded kernel is not the pinned one (checksum)" \
        "check the mirror; if the new build is right, correct scripts/rxe-vm/lib/kernel.sh"
  fi
  mkdir "$dir/root"
  for deb in "$dir"/*.deb; do
    dpkg-deb --fsys-tarfile "$deb" | tar -x -C "$dir/root" "${exclude[@]}" \
      --exclude='./usr/share' --exclude='./boot/System.map*'
  done
  mkdir -p "$dir/kernel/lib"
  mv "$dir/root/lib/modules" "$dir/kernel/lib/modules"
  depmod -b "$dir/kernel" "$KERNEL_RELEASE"
  mv "$dir/root/boot/vmlinuz-$KERNEL_RELEASE" "$dir/kernel/vmlinuz"
}
