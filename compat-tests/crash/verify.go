package main

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"polylog/compat/harness/ledger"
)

// verifier reads what the broker holds and compares it with the ledger.
type verifier struct {
	addr   string
	ledger *ledger.Ledger
	upTo   map[ledger.Partition]int64 // everything below was read after some restart
}

// overlap is how many records below the last check are read again after each restart; the last
// check of all reads everything.
const overlap = 2000

// check reads each partition from near where the last check ended, or from 0, to its end.
func (v *verifier) check(ctx context.Context, whole bool) error {
	least := v.ledger.Ends() // before the ends are asked for, so that these cannot be lower
	commits := v.ledger.Commits()
	cl, err := kgo.NewClient(kgo.SeedBrokers(v.addr))
	if err != nil {
		return err
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	start, err := adm.ListStartOffsets(ctx, idempotentTopic, plainTopic)
	if err != nil {
		return err
	}
	end, err := adm.ListEndOffsets(ctx, idempotentTopic, plainTopic)
	if err != nil {
		return err
	}
	if err := end.Error(); err != nil {
		return err
	}
	from := map[string]map[int32]kgo.Offset{}
	walks, last := map[ledger.Partition]*ledger.Walk{}, map[ledger.Partition]int64{}
	end.Each(func(o kadm.ListedOffset) {
		p := ledger.Partition{Topic: o.Topic, Num: o.Partition}
		if s, _ := start.Lookup(o.Topic, o.Partition); s.Offset != 0 {
			v.ledger.Fail("%s starts at offset %d", p, s.Offset)
		}
		at := max(0, v.upTo[p]-overlap)
		if whole {
			at = 0
		}
		walks[p], last[p] = v.ledger.Walk(p, at, o.Topic == idempotentTopic, "read back"), o.Offset
		if at < o.Offset {
			if from[o.Topic] == nil {
				from[o.Topic] = map[int32]kgo.Offset{}
			}
			from[o.Topic][o.Partition] = kgo.NewOffset().At(at)
		}
	})
	if err := v.read(ctx, from, walks, last); err != nil {
		return err
	}
	for p, w := range walks {
		w.End(least[p])
	}
	v.upTo = last
	return v.group(ctx, adm, commits)
}

func (v *verifier) read(ctx context.Context, from map[string]map[int32]kgo.Offset, walks map[ledger.Partition]*ledger.Walk,
	last map[ledger.Partition]int64,
) error {
	if len(from) == 0 {
		return nil
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(v.addr), kgo.ConsumePartitions(from))
	if err != nil {
		return err
	}
	defer cl.Close()
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
		if err := f.Err(); err != nil {
			return fmt.Errorf("read back: %w", err)
		}
		f.EachRecord(func(r *kgo.Record) {
			if p := (ledger.Partition{Topic: r.Topic, Num: r.Partition}); r.Offset < last[p] {
				walks[p].Record(r.Offset, r.Value)
			}
		})
	}
	return nil
}

func (v *verifier) group(ctx context.Context, adm *kadm.Client, acked map[ledger.Partition]int64) error {
	got, err := adm.FetchOffsets(ctx, groupName)
	if err != nil {
		return err
	}
	for p, at := range acked {
		o, ok := got.Lookup(p.Topic, p.Num)
		if !ok || o.At < at {
			v.ledger.Fail("group's offset on %s is %d; %d was acknowledged", p, o.At, at)
		}
	}
	return nil
}
