# shellcheck shell=bash
# rootfs.sh: makes the guest's file system, as two cpio archives that the kernel unpacks one
# after the other: a base that is cached, and what one run adds. Sourced by run.

# Modules by name; the modules that they depend on follow by themselves. crc32_generic is not a
# declared dependency, yet rxe cannot add a link without it.
GUEST_MODULES=(crc32_generic ib_core ib_uverbs rdma_ucm rdma_rxe virtio_pci virtio_console
  virtio_net veth sch_netem sch_prio sch_tbf cls_u32 bridge dummy)

# Loaded at boot; the rest waits for modprobe.
BOOT_MODULES=(virtio_pci virtio_console virtio_net veth)

GUEST_PROGRAMS=(bash busybox kmod ip tc rdma setpriv taskset flock ibv_devinfo ibv_devices
  ib_{read,write,send,atomic}_{lat,bw})

# programs: the full path of each guest program, one a line.
programs() {
  local name path
  for name in "${GUEST_PROGRAMS[@]}"; do
    path=$(PATH=$PATH:/usr/sbin:/sbin command -v "$name") ||
      die "$name is not installed" "scripts/bootstrap.sh rxe"
    printf '%s\n' "$path"
  done
}

# provider_files: the user-space driver of rxe and the file that makes libibverbs load it.
provider_files() {
  local lib
  # awk reads to the end: ldconfig would die of a closed pipe now and then, and take this with it.
  lib=$(ldconfig -p | awk '$1 == "libibverbs.so.1" && /x86-64/ && !n++ { print $NF }')
  lib=$(dirname "$(readlink -f "$lib")")
  printf '%s\n' "$lib"/libibverbs/librxe-rdmav*.so /etc/libibverbs.d/rxe.driver
}

# libraries FILE...: the shared libraries that these programs load, one a line.
libraries() {
  { ldd "$@" 2>/dev/null || true; } | awk '$2 == "=>" && $3 ~ /^\// { print $3 }
    $1 ~ /^\/.*ld-linux/ { print $1 }' | sort -u
}

# merged PATH: the same path without the links /bin, /sbin, /lib and /lib64 into /usr. A folder of
# such a name in a later archive would replace the link, and hide all that lies behind it.
merged() {
  case $1 in
    /bin/* | /sbin/* | /lib/* | /lib64/*) printf '/usr%s\n' "$1" ;;
    *) printf '%s\n' "$1" ;;
  esac
}

# place ROOT FILE...: copies each FILE to the same path under ROOT.
place() {
  local root=$1 file
  shift
  for file in "$@"; do install -D -m 0755 "$file" "$root$(merged "$file")"; done
}

# archive ROOT FILE: packs ROOT as an initramfs, uncompressed: the guest's CPU is emulated.
archive() { (cd "$1" && find . -print0 | cpio --null -o -H newc -R 0:0 --quiet) >"$2"; }

# base_key: changes whenever something that the base is made of changes.
base_key() {
  local files
  mapfile -t files < <(programs; provider_files)
  mapfile -t -O "${#files[@]}" files < <(libraries "${files[@]}")
  { echo "$KERNEL_RELEASE"; cat "$HERE"/lib/rootfs.sh "$HERE"/guest/*
    stat -L -c '%n %s %Y' "${files[@]}"; } | sha256sum | cut -c 1-16
}

# want_base: sets BASE to the cached base archive, building it on first use.
want_base() {
  BASE=$CACHE/base-$(base_key).cpio
  [[ ! -e $BASE ]] || return 0
  local root
  root=$(mktemp -d "$CACHE/build-base.XXXXXX")
  build_base "$root/root"
  archive "$root/root" "$root/base.cpio"
  rm -f "$CACHE"/base-*.cpio
  mv "$root/base.cpio" "$BASE"
  rm -rf "$root"
}

# build_base ROOT: lays out the guest's files.
build_base() {
  local root=$1 files
  mkdir -p "$root"/usr/{bin,sbin,lib,lib64,lib/busybox} "$root"/etc/rxe-vm "$root"/{proc,sys,dev} \
    "$root"/{tmp,run,work,out,root}
  ln -s usr/bin usr/sbin usr/lib usr/lib64 "$root/"
  mapfile -t files < <(programs; provider_files)
  place "$root" "${files[@]}"
  mapfile -t files < <(libraries "${files[@]}")
  place "$root" "${files[@]}"
  place_modules "$root"
  place_links "$root"
  install -m 0755 "$HERE/guest/init" "$root/init"
  printf '%s\n' "${BOOT_MODULES[@]}" >"$root/etc/rxe-vm/modules"
  printf 'root:x:0:0::/root:/bin/bash\nnobody:x:65534:65534::/tmp:/bin/bash\n' >"$root/etc/passwd"
  printf 'root:x:0:\nnogroup:x:65534:\n' >"$root/etc/group"
  printf '127.0.0.1 localhost\n::1 localhost\n' >"$root/etc/hosts"
}

# place_modules ROOT: GUEST_MODULES with what they need, and an index for modprobe.
place_modules() {
  local root=$1 tree=lib/modules/$KERNEL_RELEASE module
  mkdir -p "$root/$tree"
  cp "$KERNEL_DIR/$tree"/modules.{order,builtin,builtin.modinfo} "$root/$tree/"
  # modprobe prints `insmod PATH`, or `builtin NAME` for what the kernel contains.
  modprobe -d "$KERNEL_DIR" -S "$KERNEL_RELEASE" --show-depends -a "${GUEST_MODULES[@]}" |
    awk '$1 == "insmod" { print $2 }' | sort -u |
    while read -r module; do
      install -D -m 0644 "$module" "$root/$tree/${module##*/"$KERNEL_RELEASE"/}"
    done
  depmod -b "$root" "$KERNEL_RELEASE"
}

# place_links ROOT: the names under which kmod, bash and busybox are called. Busybox's own
# names come last on PATH, so that its ip and its tc do not hide the real ones.
place_links() {
  local root=$1 name
  for name in modprobe insmod rmmod lsmod modinfo depmod; do
    ln -s /usr/bin/kmod "$root/usr/sbin/$name"
  done
  busybox --list | while read -r name; do ln -s /usr/bin/busybox "$root/usr/lib/busybox/$name"; done
  ln -s bash "$root/usr/bin/sh"
  ln -s busybox "$root/usr/bin/env"
}

# add_files ROOT SPEC...: copies FILE[:DEST] into a run's ROOT, with the libraries that the base
# lacks. DEST is absolute or below /work, FILE's own name by default.
add_files() {
  local root=$1 spec file dest missing
  shift
  for spec in "$@"; do
    file=${spec%%:*}
    dest=${file##*/}
    [[ $spec != *:* ]] || dest=${spec#*:}
    [[ -e $file ]] || die "--copy: no such file: $file" "build it first, or correct the path"
    [[ $dest == /* ]] || dest=/work/$dest
    dest=$(merged "$dest")
    mkdir -p "$root/$(dirname "$dest")"
    cp -aLT "$file" "$root/$dest"
    [[ -f $file && -x $file ]] || continue
    mapfile -t missing < <(libraries "$file")
    [[ ${#missing[@]} -eq 0 ]] || place "$root" "${missing[@]}"
  done
}
