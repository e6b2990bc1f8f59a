#!/usr/bin/env bash
# protoc.sh: generates the Go code of the control plane's protobuf definitions.
#
# Usage: scripts/protoc.sh [FOLDER]     write below FOLDER instead of beside the definitions
#
# Needs protoc (Debian's protobuf-compiler); the Go plugins are tools of the module. make lint generates
# the code again in a temporary folder and compares.
set -euo pipefail

# shellcheck source=scripts/lib/common.sh
. "$(dirname "$0")/lib/common.sh"
cd "$REPO"

OUT=${1:-.}
BIN=$(mktemp -d)
trap 'rm -rf "$BIN"' EXIT
scripts/go build -o "$BIN/" google.golang.org/protobuf/cmd/protoc-gen-go \
  google.golang.org/grpc/cmd/protoc-gen-go-grpc
PATH=$BIN:$PATH protoc --go_out="$OUT" --go_opt=paths=source_relative \
  --go-grpc_out="$OUT" --go-grpc_opt=paths=source_relative \
  cmd/drtmd/internal/control/controlpb/control.proto
# The version of protoc does not matter.
sed -i '/^\/\/ .*- *protoc  *v/d; /^\/\/ \tprotoc  *v/d' "$OUT"/cmd/drtmd/internal/control/controlpb/*.pb.go
