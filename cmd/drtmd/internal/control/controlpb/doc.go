// Package controlpb is the code that scripts/protoc.sh makes of control.proto.
package controlpb
