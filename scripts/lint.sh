#!/usr/bin/env bash
# lint.sh: checks formatting, vet, staticcheck, shellcheck, generated code, commit subjects and known
# vulnerabilities. Prints what is wrong and exits with 1.
#
# Usage: scripts/lint.sh       (make lint installs what it needs first)
set -euo pipefail

# shellcheck source=scripts/lib/common.sh
. "$(dirname "$0")/lib/common.sh"
cd "$REPO"

FAILED=0
compile_once

# check NAME COMMAND...: runs one checker and remembers whether it complained.
check() {
  local name=$1
  shift
  if "$@"; then
    say "$name: clean"
  else
    say "$name: see above"
    FAILED=1
  fi
}

# sources PATTERN...: tracked files and new ones, that exist and are not ignored, one a line.
sources() {
  git ls-files --cached --others --exclude-standard -- "$@" | sort -u |
    while read -r file; do [[ ! -f $file ]] || printf '%s\n' "$file"; done
}

formatted() {
  local files wrong
  mapfile -t files < <(sources '*.go')
  wrong=$("$(scripts/go env GOROOT)/bin/gofmt" -l "${files[@]}") || return 1
  [[ -z $wrong ]] || { printf 'not formatted, run gofmt -w on:\n%s\n' "$wrong" && return 1; }
}

# A file is a shell script by its name or by its first line.
shell_scripts() {
  sources '*.sh'
  sources scripts .ci | grep -v '\.sh$' | while read -r file; do
    [[ $(head -n 1 "$file") != '#!'*bash* ]] || printf '%s\n' "$file"
  done
}

shells_clean() {
  local files
  mapfile -t files < <(shell_scripts)
  shellcheck "${files[@]}"
}

# with_cgo 0|1: each package of drtmd, of its tests and of what it links, and its files, without or with cgo.
with_cgo() {
  CGO_ENABLED=$1 scripts/go list -deps -f '{{.ImportPath}} {{.GoFiles}} {{.CgoFiles}} {{.TestGoFiles}} {{
    .XTestGoFiles}}{{if .Standard}} standard{{end}}' ./... | grep -v ' standard$' | sort
}

# imports: a line `IMPORTED PACKAGE` for each import of a package of drtmd, its tests' included.
imports() {
  scripts/go list -f '{{range .Imports}}{{.}} {{$.ImportPath}}
{{end}}{{range .TestImports}}{{.}} {{$.ImportPath}}
{{end}}{{range .XTestImports}}{{.}} {{$.ImportPath}}
{{end}}' ./...
}

# vet_without_cgo: go vet of packages that have other files without cgo, and of those that import one. All others
# are the same with cgo, and go vet looks at all with it.
vet_without_cgo() {
  local differing packages
  differing=$(comm -3 <(with_cgo 0) <(with_cgo 1) | awk '{ print $1 }' | sort -u)
  [[ -n $differing ]] || { echo 'no package has other files without cgo, not even verbs/ibv' && return 1; }
  mapfile -t packages < <({
    grep '^drtmd/' <<<"$differing"
    imports | awk 'NR == FNR { differs[$1]; next } $1 in differs { print $2 }' <(printf '%s\n' "$differing") -
  } | sort -u)
  say "go vet, without cgo, of ${packages[*]}"
  CGO_ENABLED=0 scripts/go vet "${packages[@]}"
}

# vet_tagged TAG: go vet with a build tag, of the packages that have files for it.
vet_tagged() {
  local packages
  mapfile -t packages < <(sources '*.go' | xargs grep -l "^//go:build $1\$" | xargs -r -n 1 dirname | sort -u)
  ((${#packages[@]} > 0)) || { echo "no file is built for the tag $1" && return 1; }
  scripts/go vet -tags "$1" "${packages[@]/#/./}"
}

# The code in the repository is what its definitions give.
generated() {
  local out
  out=$(mktemp -d)
  mkdir -p "$out/cmd/drtmd/internal/control/controlpb"
  if scripts/protoc.sh "$out" &&
    diff -r -x '*.proto' -x doc.go cmd/drtmd/internal/control/controlpb \
      "$out/cmd/drtmd/internal/control/controlpb"; then
    rm -rf "$out"
    return 0
  fi
  rm -rf "$out"
  echo 'the generated code is not up to date: run scripts/protoc.sh'
  return 1
}

# Subjects of commits have at most 72 characters. Commits up to SUBJECTS_AFTER are older than this
# rule, but the last of them: its subject has 74. A subject that is too long and already published
# stays: move SUBJECTS_AFTER past it.
SUBJECTS_AFTER=03aef75d0064d74761a96f460a071cc803bb899f
subjects_fit() {
  local long
  long=$(git log --no-merges --format='%h %s' "$SUBJECTS_AFTER"..HEAD |
    while read -r hash subject; do
      [[ ${#subject} -le 72 ]] || printf '%s (%d characters) %s\n' "$hash" "${#subject}" "$subject"
    done)
  [[ -z $long ]] || {
    printf 'commit subjects longer than 72 characters, reword them (git rebase -i):\n%s\n' "$long"
    return 1
  }
}

# Known vulnerabilities, where the database can be asked.
VULNDB=${GOVULNDB:-https://vuln.go.dev}
reaches_vulndb() {
  local ask=(curl -fsS -m 5 -o /dev/null)
  command -v curl >/dev/null || ask=(wget -q -T 5 -t 1 -O /dev/null)
  "${ask[@]}" "$VULNDB/index/db.json" 2>/dev/null
}

check gofmt formatted
check "go vet" scripts/go vet ./...
check "go vet, without cgo" vet_without_cgo
check "go vet, browser" vet_tagged browser
check staticcheck scripts/go tool staticcheck ./...
check shellcheck shells_clean
check "generated code" generated
if git cat-file -e "$SUBJECTS_AFTER^{commit}" 2>/dev/null; then
  check "commit subjects" subjects_fit
else
  say "commit subjects: skipped, this clone has no commit ${SUBJECTS_AFTER:0:7} (a shallow clone?)"
fi
if reaches_vulndb; then
  check govulncheck scripts/go tool govulncheck ./...
else
  say "govulncheck: skipped, $VULNDB does not answer, or curl and wget are missing"
fi
exit "$FAILED"
