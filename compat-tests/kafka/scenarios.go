package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"polylog/compat/kafka/clients/proto"
)

// scenario is one column of the table: what every client is put through.
type scenario struct {
	name string
	run  func(ctx context.Context, d *driver, r *reference, id string) error
}

// scenarios in the order of the table. id makes names of topics and groups unique.
var scenarios = []scenario{
	{"none", codec("none")},
	{"gzip", codec("gzip")},
	{"snappy", codec("snappy")},
	{"lz4", codec("lz4")},
	{"zstd", codec("zstd")},
	{"idempotent", idempotent},
	{"group", func(ctx context.Context, d *driver, r *reference, id string) error {
		return group(ctx, d, r, id+"-group", "")
	}},
	{"cooperative", func(ctx context.Context, d *driver, r *reference, id string) error {
		return group(ctx, d, r, id+"-coop", "cooperative")
	}},
	{"static", static},
	{"seek offset", seekOffset},
	{"seek time", seekTime},
	{"topics", topics},
	{"partitions", partitions},
	{"configs", configs},
	{"groups", groups},
	{"delete records", deleteRecords},
}

// baseTime is the timestamp of record 0 where a scenario asks for timestamps: one day ago, so
// that no bound on timestamps is near.
var baseTime = time.Now().Add(-24 * time.Hour).UnixMilli()

// codec produces with one codec in two batches' time, and reads the same back with the reference
// and with the client itself.
func codec(name string) func(context.Context, *driver, *reference, string) error {
	return func(ctx context.Context, d *driver, r *reference, id string) error {
		topic := id + "-" + name
		if err := r.topic(ctx, topic, 3); err != nil {
			return err
		}
		a := proto.Args{"topic": topic, "codec": name, "parts": "3", "from": "0", "count": "300", "ts": proto.Itoa(baseTime)}
		if _, err := d.call(ctx, "produce", a); err != nil {
			return err
		}
		if err := r.expect(ctx, topic, 3, 300, name, baseTime); err != nil {
			return err
		}
		return consume(ctx, d, proto.Args{"topic": topic, "part": "1", "offset": "0", "count": "100"}, 0, 1, 3)
	}
}

// consume runs a consume operation and checks that it gives count records, offsets from first on,
// values v(value), v(value+step), ….
func consume(ctx context.Context, d *driver, a proto.Args, first, value, step int64) error {
	got, err := d.call(ctx, "consume", a)
	if err != nil {
		return err
	}
	recs := strings.Split(got["recs"], ",")
	if int64(len(recs)) != a.Int("count") {
		return fmt.Errorf("consumed %d records, want %s: %s", len(recs), a["count"], got["recs"])
	}
	for i, rec := range recs {
		if want := fmt.Sprintf("%d:v%d", first+int64(i), value+step*int64(i)); rec != want {
			return fmt.Errorf("consumed %s, want %s", rec, want)
		}
	}
	return nil
}

// idempotent produces twice through one producer; sequences go on, and each record is there once.
func idempotent(ctx context.Context, d *driver, r *reference, id string) error {
	topic := id + "-idempotent"
	if err := r.topic(ctx, topic, 2); err != nil {
		return err
	}
	for _, from := range []string{"0", "500"} {
		a := proto.Args{"topic": topic, "codec": "none", "idempotent": "1", "parts": "2", "from": from, "count": "500"}
		if _, err := d.call(ctx, "produce", a); err != nil {
			return err
		}
	}
	return r.expect(ctx, topic, 2, 1000, "none", 0)
}

func seekOffset(ctx context.Context, d *driver, r *reference, id string) error {
	topic := id + "-seek"
	if err := r.fill(ctx, topic, 100); err != nil {
		return err
	}
	return consume(ctx, d, proto.Args{"topic": topic, "part": "0", "offset": "37", "count": "20"}, 37, 37, 1)
}

// seekTime asks for a time between two batches' timestamps and for one inside a batch.
func seekTime(ctx context.Context, d *driver, r *reference, id string) error {
	topic := id + "-time"
	if err := r.fillTimed(ctx, topic); err != nil {
		return err
	}
	for _, at := range []int64{24_500, 60_000, 60_001} {
		first := (at + 999) / 1000
		a := proto.Args{"topic": topic, "part": "0", "time": proto.Itoa(baseTime + at), "count": "5"}
		if err := consume(ctx, d, a, first, first, 1); err != nil {
			return fmt.Errorf("from %d ms: %w", at, err)
		}
	}
	return nil
}

func topics(ctx context.Context, d *driver, r *reference, id string) error {
	topic := id + "-topics"
	a := proto.Args{"topic": topic, "parts": "3", "config": "retention.ms:86400000"}
	if _, err := d.call(ctx, "create", a); err != nil {
		return err
	}
	if _, err := d.call(ctx, "create", a); err == nil {
		return fmt.Errorf("a second create of %s succeeded", topic)
	}
	if got, err := d.call(ctx, "describe", a); err != nil || got["parts"] != "3" {
		return fmt.Errorf("described %v (%w), want 3 partitions", got, err)
	}
	cfg, err := r.adm.DescribeTopicConfigs(ctx, topic)
	if err != nil {
		return err
	}
	rc, err := cfg.On(topic, nil)
	if err != nil {
		return err
	}
	for _, c := range rc.Configs {
		if c.Key == "retention.ms" && c.MaybeValue() != "86400000" {
			return fmt.Errorf("retention.ms is %s", c.MaybeValue())
		}
	}
	if got, err := d.call(ctx, "topics", nil); err != nil || !slices.Contains(strings.Split(got["topics"], ","), topic) {
		return fmt.Errorf("%s is not among the topics (%w)", topic, err)
	}
	if _, err := d.call(ctx, "delete", a); err != nil {
		return err
	}
	return r.gone(ctx, topic)
}

func partitions(ctx context.Context, d *driver, r *reference, id string) error {
	topic := id + "-partitions"
	if err := r.topic(ctx, topic, 2); err != nil {
		return err
	}
	if _, err := d.call(ctx, "addparts", proto.Args{"topic": topic, "total": "5"}); err != nil {
		return err
	}
	return r.has(ctx, topic, 5)
}

func configs(ctx context.Context, d *driver, r *reference, id string) error {
	topic := id + "-configs"
	if err := r.topic(ctx, topic, 1); err != nil {
		return err
	}
	key := proto.Args{"topic": topic, "key": "retention.ms"}
	if got, err := d.call(ctx, "getconfig", key); err != nil || got["value"] != "604800000" {
		return fmt.Errorf("default retention.ms is %q (%w), want 604800000", got["value"], err)
	}
	if _, err := d.call(ctx, "setconfig", proto.Args{"topic": topic, "key": "retention.ms", "value": "3600000"}); err != nil {
		return err
	}
	for last := ""; ; { // Apache Kafka's answer can precede what another request sees
		got, err := d.call(ctx, "getconfig", key)
		if err != nil {
			return fmt.Errorf("retention.ms is %q after it was set: %w", last, err)
		}
		if last = got["value"]; last == "3600000" {
			return nil
		}
	}
}

func deleteRecords(ctx context.Context, d *driver, r *reference, id string) error {
	topic := id + "-delrecs"
	if err := r.fill(ctx, topic, 100); err != nil {
		return err
	}
	if _, err := d.call(ctx, "deleterecords", proto.Args{"topic": topic, "part": "0", "before": "40"}); err != nil {
		return err
	}
	got, err := d.call(ctx, "bounds", proto.Args{"topic": topic, "part": "0"})
	if err != nil {
		return err
	}
	if got["low"] != "40" || got["high"] != "100" {
		return fmt.Errorf("offsets are [%s, %s), want [40, 100)", got["low"], got["high"])
	}
	return consume(ctx, d, proto.Args{"topic": topic, "part": "0", "offset": "40", "count": "60"}, 40, 40, 1)
}
