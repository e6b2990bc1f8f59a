// Package service is what makes a program a daemon of a system: its folders, its log, what it tells
// systemd, and whether the limits of its process suffice.
package service
