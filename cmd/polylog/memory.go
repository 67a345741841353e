package main

import (
	"math"
	"os"
	"runtime/debug"

	"polylog/cmd/polylog/config"
)

// tuneMemory sets the collector's two dials. The Go runtime's own variables, GOGC and
// GOMEMLIMIT, go before the configuration: whoever sets them means this process.
func tuneMemory(c *config.Config) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(c.GCPercent)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		limit := int64(c.MemoryLimit)
		if limit == 0 {
			limit = math.MaxInt64
		}
		debug.SetMemoryLimit(limit)
	}
}
