package main

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// verifier reads what the broker holds and compares it with the ledger.
type verifier struct {
	addr   string
	ledger *ledger
	upTo   map[partition]int64 // everything below was read after some restart
}

// overlap is how many records below the last check are read again after each restart; the last
// check of all reads everything.
const overlap = 2000

// check reads each partition from near where the last check ended, or from 0, to its end.
func (v *verifier) check(ctx context.Context, whole bool) error {
	least := v.ledger.ends() // before the ends are asked for, so that these cannot be lower
	commits := v.ledger.commits()
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
	next, last := map[partition]int64{}, map[partition]int64{}
	end.Each(func(o kadm.ListedOffset) {
		p := partition{o.Topic, o.Partition}
		if s, _ := start.Lookup(o.Topic, o.Partition); s.Offset != 0 {
			v.ledger.fail("%s starts at offset %d", p, s.Offset)
		}
		if o.Offset < least[p] {
			v.ledger.fail("%s ends at %d: records up to %d were acknowledged or shown", p, o.Offset, least[p]-1)
		}
		at := max(0, v.upTo[p]-overlap)
		if whole {
			at = 0
		}
		next[p], last[p] = at, o.Offset
		if at < o.Offset {
			if from[o.Topic] == nil {
				from[o.Topic] = map[int32]kgo.Offset{}
			}
			from[o.Topic][o.Partition] = kgo.NewOffset().At(at)
		}
	})
	if err := v.read(ctx, from, next, last); err != nil {
		return err
	}
	v.upTo = last
	return v.group(ctx, adm, commits)
}

func (v *verifier) read(ctx context.Context, from map[string]map[int32]kgo.Offset, next, last map[partition]int64) error {
	if len(from) == 0 {
		return nil
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(v.addr), kgo.ConsumePartitions(from))
	if err != nil {
		return err
	}
	defer cl.Close()
	seen := map[recordID]int64{}
	order := map[[2]int64]int64{} // producer and partition → last sequence
	behind := func() bool {
		for p, o := range next {
			if o < last[p] {
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
			p := partition{r.Topic, r.Partition}
			if r.Offset >= last[p] {
				return
			}
			if r.Offset != next[p] {
				v.ledger.fail("%s: offset %d where %d follows", p, r.Offset, next[p])
			}
			next[p] = r.Offset + 1
			id := idOf(r.Value)
			v.ledger.note(p, r.Offset, id, false, "read back")
			if r.Topic != idempotentTopic {
				return
			}
			if at, ok := seen[id]; ok {
				v.ledger.fail("record %v of an idempotent producer is in %s twice, at %d and %d", id, p, at, r.Offset)
			}
			seen[id] = r.Offset
			stream := [2]int64{id.producer(), int64(r.Partition)}
			if before, ok := order[stream]; ok && before > id.seq() {
				v.ledger.fail("%s: record %v follows %d/%d of the same producer", p, id, id.producer(), before)
			}
			order[stream] = id.seq()
		})
	}
	return nil
}

func (v *verifier) group(ctx context.Context, adm *kadm.Client, acked map[partition]int64) error {
	got, err := adm.FetchOffsets(ctx, groupName)
	if err != nil {
		return err
	}
	for p, at := range acked {
		o, ok := got.Lookup(p.topic, p.num)
		if !ok || o.At < at {
			v.ledger.fail("group's offset on %s is %d; %d was acknowledged", p, o.At, at)
		}
	}
	return nil
}
