//go:build !race

package commitlog

const checkSums = false
