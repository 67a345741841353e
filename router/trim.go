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
	var trims []state.Trim
	var at []int
	for i, q := range reqs {
		out[i] = TrimResult{Start: -1}
		t, _, ok := r.state.TopicOfQueue(q.Queue)
		if !ok {
			out[i].Err = core.E(core.NotFound, "queue %d does not exist", q.Queue)
			continue
		}
		if out[i].Err = r.authorizeTopic(p, OpDelete, t.Name, t.Internal); out[i].Err != nil {
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
		trims = append(trims, state.Trim{Queue: q.Queue, Before: before})
		at = append(at, i)
	}
	results, err := r.trim(ctx, trims)
	if err != nil {
		return nil, err
	}
	for i, tr := range results {
		out[at[i]].Start = tr.Start
		if tr.Kind != core.OK {
			out[at[i]].Err = core.E(tr.Kind, "cannot trim queue %d before %d", trims[i].Queue, trims[i].Before)
		}
	}
	return out, nil
}

// runsPerTrim bounds the runs that one command removes: all publishes wait for it.
const runsPerTrim = 5000

// trim proposes trims, as many commands as it takes, and returns a result for each. On
// an error some may be done, or begun.
func (r *Router) trim(ctx context.Context, trims []state.Trim) ([]state.TrimResult, error) {
	out := make([]state.TrimResult, len(trims))
	var cmd state.TrimQueues
	var at []int // where in out each of cmd belongs
	room := runsPerTrim
	send := func() error {
		if len(at) == 0 {
			return nil
		}
		res, err := r.propose(ctx, cmd.Command())
		if err != nil {
			return err
		}
		results, err := state.DecodeTrimResults(res.Body)
		if err != nil || len(results) != len(at) {
			return core.E(core.Internal, "trim: %d results of %d, %v", len(results), len(at), err)
		}
		for i, tr := range results {
			out[at[i]] = tr
		}
		cmd.Trims, at, room = cmd.Trims[:0], at[:0], runsPerTrim
		return nil
	}
	var buf []core.Run
	for i, t := range trims {
		for more := true; more && out[i].Kind == core.OK; {
			var step state.Trim
			var err error
			if step, buf, err = r.trimStep(t, room, buf); err != nil {
				return nil, err
			}
			cmd.Trims, at = append(cmd.Trims, step), append(at, i)
			room -= max(len(buf), 1)
			if more = step.Before < t.Before; more || room <= 0 {
				if err := send(); err != nil {
					return nil, err
				}
			}
		}
	}
	return out, send()
}

// trimStep is the part of t that removes at most limit runs; runs are those, as far as
// it had to look.
func (r *Router) trimStep(t state.Trim, limit int, buf []core.Run) (step state.Trim, runs []core.Run, err error) {
	buf = buf[:0]
	head, err := r.Head(t.Queue)
	if core.KindOf(err) == core.NotFound || t.Before <= head.Start || t.Before > head.End {
		return t, buf, nil // for the applier to answer
	}
	if err != nil {
		return t, buf, err
	}
	runs, err = r.state.Store().Runs(t.Queue, head.Start, limit, buf)
	if core.KindOf(err) == core.NotFound {
		return t, buf, nil
	}
	if err == nil && len(runs) == limit {
		t.Before = min(t.Before, runs[limit-1].End())
	}
	return t, runs, err
}
