//go:build race

package endtoend

const raceBuild = true
