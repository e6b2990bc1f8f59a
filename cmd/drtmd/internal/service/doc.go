// Package service has what a system daemon needs: folders, log, notifications to systemd, and checks of
// the process limits.
package service
