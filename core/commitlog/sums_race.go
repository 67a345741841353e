//go:build race

package commitlog

// checkSums has every checksum that came with an entry computed again: in the tests that
// run under the race detector a wrong one shows at once.
const checkSums = true
