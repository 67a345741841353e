package router

import (
	"context"
	"time"

	"polylog/core"
	"polylog/router/state"
)

// The leader notes in the log what it sees of the members: how far each holds the log, so that
// a copy of its data that is older is known as such, and whether it answers, so that every
// node knows whom clients need not try. A cluster in which nothing happens notes nothing.

const (
	sightingInterval = time.Second
	// awayAfter is how long a member must be silent to be called away.
	awayAfter = 5 * time.Second
)

func (r *Router) sightingLoop(ctx context.Context) {
	tick := time.NewTicker(sightingInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if err := r.NoteMembers(ctx); err != nil && ctx.Err() == nil {
			r.logger.Debug("what is seen of the members is noted later", "error", err)
		}
	}
}

// NoteMembers is one look of the leader at the members, which is noted where it differs from
// the last. Other nodes do nothing.
func (r *Router) NoteMembers(ctx context.Context) error {
	contacts := r.log.Contacts()
	if len(contacts) < 2 || r.state.Supports(state.CodeNoteMembers) != nil {
		return nil
	}
	r.membership.Lock()
	defer r.membership.Unlock()
	was := r.state.Sightings()
	var cmd state.NoteMembers
	news := r.state.Applied() > r.noted
	for _, c := range contacts {
		now := state.Sighting{ID: c.ID, Held: c.Held, Away: c.Silent >= awayAfter}
		news = news || now.Away != was[c.ID].Away
		cmd.Sightings = append(cmd.Sightings, now)
	}
	if !news {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 10*sightingInterval)
	defer cancel()
	if _, err := r.propose(ctx, cmd.Command()); err != nil {
		return err
	}
	r.noted = r.state.Applied()
	for _, s := range cmd.Sightings {
		if s.Away != was[s.ID].Away {
			r.logger.Info("member seen by the leader", "node", s.ID, "away", s.Away)
		}
	}
	return nil
}

// Held is an entry that a member is known to have had on its disk, for cluster.Options.
func Held(s *state.State) func(id string) core.LogIndex {
	return func(id string) core.LogIndex { return s.Sightings()[id].Held }
}

func (r *Router) awayCount() (n int) {
	for _, m := range r.members() {
		if m.Away {
			n++
		}
	}
	return n
}
