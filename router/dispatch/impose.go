package dispatch

import "polylog/core"

// Impose says what became of an offset without this group's doing, in the replicated state:
// it is settled, or it failed once more and is to be delivered again. Whoever holds it has
// lost it.
func (g *Group) Impose(o core.Offset, gone bool) {
	f := g.flights[o]
	if f != nil {
		if f.by != nil {
			g.land(f)
		}
		delete(g.flights, o)
	}
	switch {
	case gone && f == nil:
		g.removeUndelivered(o)
	case gone:
		g.forget(o)
	default:
		g.count(o, g.attempts[o]+1)
		if f != nil {
			g.giveBack(o, 0)
		}
	}
}
