//go:build race

package raceskip

const enabled = true
