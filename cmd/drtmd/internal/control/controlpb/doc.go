// Package controlpb is generated from control.proto by scripts/protoc.sh.
package controlpb
