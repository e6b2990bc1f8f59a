//go:build race

package lineword

const raceEnabled = true
