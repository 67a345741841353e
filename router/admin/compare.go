package admin

import (
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"
)

// compare has all members hash their state at one log index. It ends a little before ctx
// does, so that what the quick ones say still gets to whoever asked.
func (s *Server) compare(ctx context.Context) (*Comparison, error) {
	if end, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, end.Add(-time.Until(end)/10))
		defer cancel()
	}
	at, all, err := s.o.Router.CompareReplicas(ctx)
	if err != nil {
		return nil, err
	}
	c := &Comparison{Index: uint64(at)}
	for _, r := range all {
		d := Digest{ID: r.Node}
		if r.Err != nil {
			d.Error = r.Err.Error()
		} else {
			d.SHA256 = hex.EncodeToString(r.Sum[:])
		}
		c.Digests = append(c.Digests, d)
	}
	slices.SortFunc(c.Digests, func(a, b Digest) int { return strings.Compare(a.ID, b.ID) })
	return c, nil
}

// problems are members that gave no digest, and states that differ.
func (c *Comparison) problems() (problems []string) {
	sums := map[string][]string{}
	for _, d := range c.Digests {
		if d.Error != "" {
			problems = append(problems, fmt.Sprintf("node %s could not be compared: %s", d.ID, d.Error))
			continue
		}
		sums[d.SHA256] = append(sums[d.SHA256], d.ID)
	}
	if len(sums) < 2 {
		return problems
	}
	var groups []string
	for _, ids := range sums {
		groups = append(groups, strings.Join(ids, ","))
	}
	slices.Sort(groups)
	return append(problems, fmt.Sprintf("the nodes' states differ after entry %d: %s", c.Index, strings.Join(groups, " against ")))
}
