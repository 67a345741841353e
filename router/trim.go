package router

import (
	"context"

	"polylog/core"
	"polylog/router/state"
)

// TrimRequest asks to delete a queue's records below an offset.
type TrimRequest struct {
	Queue  core.QueueID
	Before core.Offset // -1: all that are there
}

// TrimResult is a queue's new start, or why it has none.
type TrimResult struct {
	Start core.Offset
	Err   error // NotFound, OutOfRange, Denied
}

// Trim deletes records: Kafka's DeleteRecords. The results are in the order of the
// requests; the last result is an error of the whole.
func (r *Router) Trim(ctx context.Context, p Principal, reqs []TrimRequest) ([]TrimResult, error) {
	out := make([]TrimResult, len(reqs))
	var cmd state.TrimQueues
	var at []int
	for i, q := range reqs {
		out[i] = TrimResult{Start: -1}
		t, _, ok := r.state.TopicOfQueue(q.Queue)
		if !ok {
			out[i].Err = core.E(core.NotFound, "queue %d does not exist", q.Queue)
			continue
		}
		if out[i].Err = r.auth.Authorize(p, OpDelete, topicResource(t.Name)); out[i].Err != nil {
			continue
		}
		before := q.Before
		if before == -1 {
			head, err := r.Head(q.Queue)
			if err != nil {
				out[i].Err = err
				continue
			}
			before = head.End
		}
		cmd.Trims = append(cmd.Trims, state.Trim{Queue: q.Queue, Before: before})
		at = append(at, i)
	}
	if len(at) == 0 {
		return out, nil
	}
	res, err := r.propose(ctx, cmd.Command())
	if err != nil {
		return nil, err
	}
	results, err := state.DecodeTrimResults(res.Body)
	if err != nil {
		return nil, core.E(core.Internal, "trim: %v", err)
	}
	for i, tr := range results[:min(len(results), len(at))] {
		out[at[i]].Start = tr.Start
		if tr.Kind != core.OK {
			out[at[i]].Err = core.E(tr.Kind, "cannot trim queue %d before %d", cmd.Trims[i].Queue, cmd.Trims[i].Before)
		}
	}
	return out, nil
}
