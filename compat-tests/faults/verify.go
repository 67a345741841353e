package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"polylog/compat/faults/check"
	"polylog/compat/harness"
	"polylog/compat/harness/ledger"
)

// watch asks for the ends of partitions and the group's offsets all the time, of whom the clients
// believe to be the leader: neither may be behind what was acknowledged before the question.
func (r *run) watch(ctx context.Context) error {
	cl, err := kgo.NewClient(append(impatient(r.addrs()), kgo.RequestRetries(0), kgo.RetryTimeout(time.Second))...)
	if err != nil {
		return err
	}
	adm := kadm.NewClient(cl)
	r.load.consuming.Go(func() {
		defer cl.Close()
		for harness.Pause(ctx, 100*time.Millisecond) {
			least, commits := r.ledger.Ends(), r.ledger.Commits()
			ends, err := adm.ListEndOffsets(ctx, topic)
			if err == nil {
				ends.Each(func(o kadm.ListedOffset) {
					if p := (ledger.Partition{Topic: o.Topic, Num: o.Partition}); o.Err == nil && o.Offset < least[p] {
						r.ledger.Fail("stale: %s is said to end at %d; %d was acknowledged or shown before", p, o.Offset, least[p])
					}
				})
			}
			// A client that could not ask for the topic's name meanwhile, of which the answer has the id
			// alone, has an error in its stead.
			if got, err := adm.FetchOffsets(ctx, groupName); err == nil && got.Error() == nil {
				r.judgeCommits(got, commits, "stale")
			}
		}
	})
	return nil
}

func (r *run) judgeCommits(got kadm.OffsetResponses, acked map[ledger.Partition]int64, who string) {
	for p, at := range acked {
		o, ok := got.Lookup(p.Topic, p.Num)
		if ok && o.Err != nil {
			continue
		}
		if !ok {
			r.ledger.Fail("%s: the group has no offset on %s; %d was acknowledged before", who, p, at)
		} else if o.At < at {
			r.ledger.Fail("%s: the group's offset on %s is %d; %d was acknowledged before", who, p, o.At, at)
		}
	}
}

// readBack reads everything there is from the beginning.
func (r *run) readBack(ctx context.Context, who string) error {
	least, commits := r.ledger.Ends(), r.ledger.Commits()
	walks := map[ledger.Partition]*ledger.Walk{}
	last := map[ledger.Partition]int64{}
	from := map[string]map[int32]kgo.Offset{topic: {}}
	cl, err := kgo.NewClient(impatient(r.addrs())...)
	if err != nil {
		return err
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	ends, err := adm.ListEndOffsets(ctx, topic)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return err
	}
	ends.Each(func(o kadm.ListedOffset) {
		p := ledger.Partition{Topic: o.Topic, Num: o.Partition}
		walks[p], last[p] = r.ledger.Walk(p, 0, true, who), o.Offset
		from[topic][o.Partition] = kgo.NewOffset().At(0)
	})
	cl.AddConsumePartitions(from)
	behind := func() bool {
		for p, w := range walks {
			if w.Next() < last[p] {
				return true
			}
		}
		return false
	}
	for behind() {
		f := cl.PollFetches(ctx)
		if ctx.Err() != nil {
			return fmt.Errorf("read back: %w", ctx.Err())
		}
		f.EachRecord(func(rec *kgo.Record) {
			if p := (ledger.Partition{Topic: rec.Topic, Num: rec.Partition}); rec.Offset < last[p] {
				walks[p].Record(rec.Offset, rec.Value)
			}
		})
	}
	for p, w := range walks {
		w.End(least[p])
	}
	got, err := adm.FetchOffsets(ctx, groupName)
	if err == nil {
		r.judgeCommits(got, commits, who)
	}
	return err
}

// judge runs one check and counts it: it is good if it ends well and finds nothing wrong.
func (r *run) judge(name string, do func() error) {
	before, _ := r.ledger.Wrong()
	begin := time.Now()
	if err := do(); err != nil {
		r.ledger.Fail("%s: %v", name, err)
	}
	r.verdict(before, "%s, %.1fs", name, time.Since(begin).Seconds())
}

// everyLeader reads everything back from each node, when it leads: what one replica alone holds
// differently is seen then.
func (r *run) everyLeader(ctx context.Context) error {
	first := r.leader()
	for _, n := range append([]*node{first}, slices.DeleteFunc(slices.Clone(r.nodes), func(n *node) bool { return n == first })...) {
		if n == nil {
			return errors.New("nobody leads")
		}
		if err := r.lead(ctx, n); err != nil {
			return err
		}
		if err := r.readBack(ctx, "read back from "+n.id); err != nil {
			return fmt.Errorf("from %s: %w", n.id, err)
		}
	}
	return nil
}

// lead makes a node the leader: all others die, and the first that comes back is asked for its vote
// before it asks for one itself.
func (r *run) lead(ctx context.Context, n *node) error {
	others := slices.DeleteFunc(slices.Clone(r.nodes), func(o *node) bool { return o == n })
	for try := 0; len(others) > 0 && r.leader() != n; try++ {
		if try == 5 {
			return fmt.Errorf("%s does not come to lead", n.id)
		}
		for _, o := range others {
			o.kill()
		}
		others[0].up()
		for r.leader() == nil {
			if !harness.Pause(ctx, 100*time.Millisecond) {
				return errors.New("nobody leads after a kill")
			}
		}
		for _, o := range others[1:] {
			o.up()
		}
		if err := r.converged(r.convergence(), false); err != nil {
			return err
		}
	}
	return nil
}

// replicas compares what the nodes hold, after they have been stopped. A change of the leader while
// they are being stopped may leave an entry that only some have; then they are started again, until
// they stop at the same one.
func (r *run) replicas(ctx context.Context) error {
	for try := 1; ; try++ {
		if err := r.stopAll(); err != nil {
			return err
		}
		logs, indexes, err := r.contents(ctx)
		if err != nil {
			return err
		}
		diff := check.Same(logs)
		for i, index := range indexes {
			if diff == "" && index != indexes[0] {
				diff = fmt.Sprintf("the index of %s is %q, that of %s is %q", r.nodes[i].id, index, r.nodes[0].id, indexes[0])
			}
		}
		if diff == "" {
			return nil
		}
		ends := func(l check.Replica) bool { return l.Last() != logs[0].Last() }
		if try == 5 || !slices.ContainsFunc(logs, ends) {
			return errors.New(diff)
		}
		for _, n := range r.nodes {
			n.up()
		}
		if err := r.converged(r.convergence(), false); err != nil {
			return err
		}
	}
}

// stopAll stops the leader last, so that no other takes its place and writes entries of its own.
func (r *run) stopAll() error {
	leader := r.leader()
	order := slices.Clone(r.nodes)
	slices.SortStableFunc(order, func(a, b *node) int {
		switch leader {
		case a:
			return 1
		case b:
			return -1
		}
		return 0
	})
	for _, n := range order {
		if err := n.terminate(); err != nil {
			return fmt.Errorf("stop %s: %w", n.id, err)
		}
	}
	return nil
}

// contents are the log of each node and what `polylog check` says of its index.
func (r *run) contents(ctx context.Context) (logs []check.Replica, indexes []string, err error) {
	for _, n := range r.nodes {
		out, err := exec.CommandContext(ctx, r.bin, "check", "--data-dir", n.polylog.Data).CombinedOutput()
		if err != nil {
			return nil, nil, fmt.Errorf("polylog check of %s: %w: %s", n.id, err, out)
		}
		var index []string
		for line := range strings.Lines(string(out)) {
			if what, rest, _ := strings.Cut(strings.TrimSpace(line), " "); what == "index" || what == "hash" {
				index = append(index, rest)
			}
		}
		dump, err := exec.CommandContext(ctx, r.bin, "dump", "--headers", "--data-dir", n.polylog.Data).Output()
		if err != nil {
			return nil, nil, fmt.Errorf("polylog dump of %s: %w", n.id, err)
		}
		log, err := check.ReadDump(n.id, bytes.NewReader(dump))
		if err != nil {
			return nil, nil, err
		}
		logs, indexes = append(logs, log), append(indexes, strings.Join(index, " "))
	}
	return logs, indexes, nil
}

// linearizable judges the operations on single values.
func (r *run) linearizable() error {
	wrong, undecided := check.Linearizable(r.ops.done, time.Minute)
	for _, key := range wrong {
		r.ledger.Fail("the operations on %s are not linearizable; they are in ops.jsonl", key)
	}
	for _, key := range undecided {
		r.ledger.Fail("whether the operations on %s are linearizable could not be told in a minute", key)
	}
	return nil
}
