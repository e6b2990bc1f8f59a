# shellcheck shell=bash
# toolchain.sh: finds a Go that is new enough for go.mod, or fetches one into .cache. Sourced
# after common.sh and packages.sh.
#
# Go publishes its toolchains as versions of the module golang.org/toolchain, so an older go,
# such as the distribution's, downloads a newer one from whatever module proxy it is set up for
# and checks it against Go's checksum database; here the sum is pinned as well.

# The toolchain that is fetched, and its checksum. Change both together: the sum is what
# `go mod download -json golang.org/toolchain@v0.0.1-GO_FETCHED.linux-amd64` prints as Sum.
GO_FETCHED=go1.26.8
GO_FETCHED_SUM=h1:ZOmGe1OnfREDMIdb1Qi4G9JSuDPBLGExZMQ4nis1RXM=
GO_CACHE=$REPO/.cache/go-toolchain

# go_needed: the version that go.mod asks for, such as 1.26.0.
go_needed() { sed -n 's/^go \([0-9.]*\).*/\1/p' "$REPO/go.mod"; }

# go_is_new_enough GO: whether this go command, left to itself, is at least go.mod's version.
go_is_new_enough() {
  local has
  has=$(cd / && GOTOOLCHAIN=local "$1" env GOVERSION 2>/dev/null) || return 1
  has=${has#go}
  [[ $(printf '%s\n' "$(go_needed)" "${has%% *}" | sort -V | head -n 1) == "$(go_needed)" ]]
}

# find_go: prints the path of a go that is new enough; false when there is none yet.
find_go() {
  local candidate
  for candidate in "$(command -v go)" /usr/local/go/bin/go "$GO_CACHE/$GO_FETCHED/bin/go"; do
    if [[ -x $candidate ]] && go_is_new_enough "$candidate"; then
      printf '%s\n' "$candidate"
      return 0
    fi
  done
  return 1
}

# any_go: prints the path of some go, however old, installing the distribution's if none.
any_go() {
  local candidate
  for candidate in "$(command -v go)" /usr/local/go/bin/go; do
    [[ -x $candidate ]] && printf '%s\n' "$candidate" && return 0
  done
  # The proxy is asked over TLS, and golang-go does not bring the certificates.
  need_packages golang-go ca-certificates
  command -v go || die "golang-go is installed and yet there is no go on PATH" \
    "add its folder to PATH: dpkg -L golang-go | grep '/bin/go$'"
}

# fetch_go: downloads GO_FETCHED into .cache; all or nothing, and safe to run twice at once.
fetch_go() (
  local old work dir
  [[ $(uname -sm) == "Linux x86_64" ]] || no_go "no toolchain is pinned for $(uname -sm)"
  mkdir -p "$GO_CACHE"
  exec 8>"$GO_CACHE/lock"
  flock 8
  [[ ! -e $GO_CACHE/$GO_FETCHED ]] || return 0
  old=$(any_go)
  say "fetching $GO_FETCHED (go.mod needs $(go_needed) or newer; once, about 70 MB)"
  work=$(mktemp -d "$GO_CACHE/fetch.XXXXXX")
  trap 'rm -rf "$work"' EXIT
  dir=$(download_toolchain "$old" "$work") || exit 1
  restore_toolchain "$dir"
  mv "$dir" "$GO_CACHE/$GO_FETCHED"
)

no_go() {
  die "$1" "install Go $(go_needed) or newer, put its bin folder on PATH, and run this again"
}

# download_toolchain GO DIR: prints the folder, below DIR, of the unpacked and checked module.
download_toolchain() {
  local answer sum
  # A module of its own, because an old go does not understand the one in the folders above.
  echo 'module fetch' >"$2/go.mod"
  answer=$(cd "$2" && env -u GOROOT GOTOOLCHAIN=local GOWORK=off GOFLAGS=-modcacherw \
    GOMODCACHE="$2/mod" "$1" mod download -json \
    "golang.org/toolchain@v0.0.1-$GO_FETCHED.linux-amd64" 2>&1) ||
    no_go "$GO_FETCHED is out of reach: $(grep -v '^[{}]' <<<"$answer" | tail -n 1 |
      sed 's/^\t"Error": //')"
  sum=$(sed -n 's/^\t"Sum": "\(.*\)",*$/\1/p' <<<"$answer")
  [[ $sum == "$GO_FETCHED_SUM" ]] || no_go "$GO_FETCHED has the wrong checksum: '$sum'"
  sed -n 's/^\t"Dir": "\(.*\)",*$/\1/p' <<<"$answer"
}

# restore_toolchain DIR: undoes what the module format cannot carry: executable bits, and
# go.mod files, which travel under another name.
restore_toolchain() {
  local file
  find "$1/bin" "$1/pkg/tool" -type f -exec chmod 0755 {} +
  for file in "$1"/src/_go.mod "$1"/src/cmd/_go.mod; do
    [[ ! -e $file ]] || mv "$file" "${file%_go.mod}go.mod"
  done
}
