package group

import "time"

// Heartbeat handles a Heartbeat. One that comes during a rebalance counts as life, and
// tells the member to join again.
func (c *Coordinator) Heartbeat(now time.Time, id, memberID, instance string, generation int32) Code {
	g, m, code := c.lookup(id, memberID, instance)
	switch {
	case code != None:
		return code
	case generation != g.generation:
		return IllegalGeneration
	case g.state == PreparingRebalance:
		c.touch(now, m)
		return RebalanceInProgress
	default:
		c.touch(now, m)
		return None
	}
}
