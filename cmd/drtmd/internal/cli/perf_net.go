package cli

import (
	"errors"
	"fmt"
	"net"
	"syscall"
)

// listenError says why --listen cannot be, and what to do about it.
func listenError(address string, err error) error {
	var dns *net.DNSError
	next := ""
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		next = "; end what listens there, or name another port"
	case errors.Is(err, syscall.EADDRNOTAVAIL), errors.As(err, &dns):
		next = "; name an address of this machine, see ip addr"
	case errors.Is(err, syscall.EACCES):
		next = "; ports below 1024 need root: name a greater one"
	}
	return fmt.Errorf("--listen %s: %w%s", address, cause(err), next)
}

// connectError does the same for --connect.
func connectError(address string, err error) error {
	var dns *net.DNSError
	next := "; is drtmd perf --listen running there, and not busy?"
	if errors.As(err, &dns) {
		next = "; check the name of the host"
	}
	return fmt.Errorf("--connect %s: %w%s", address, cause(err), next)
}

// cause strips what package net says about operation and address: the flag has said it.
func cause(err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		err = op.Err
	}
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return errno
	}
	return err
}
