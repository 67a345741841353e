package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"polylog/bench/prime"
	"polylog/compat/harness"
)

// restart fills a log, kills the broker and measures how long it takes from the start of the new
// process to the first produced and fetched record.
func (b *bench) restart(ctx context.Context) error {
	dir := filepath.Join(b.work, "restart")
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	start := func() (*harness.Broker, error) { return harness.Polylog{Bin: b.bin, Dir: dir, Flush: "os"}.Start(ctx) }
	s, err := start()
	if err != nil {
		return err
	}
	defer func() { s.Kill() }()
	if err := createTopic(ctx, s.Addr, "big", partitions); err != nil {
		return err
	}
	if _, err := replayProduce(s.Addr, "big", 1024, b.restartBytes); err != nil {
		return err
	}
	for range b.rounds {
		s.Kill()
		if err := prime.Fill(b.work); err != nil {
			return err
		}
		begin := time.Now()
		if s, err = start(); err != nil {
			return err
		}
		if err := firstUse(s.Addr, "big"); err != nil {
			return err
		}
		took := time.Since(begin)
		u, err := s.Usage()
		if err != nil {
			return err
		}
		b.table.add(rowRestart, "polylog", float64(took.Milliseconds()), 0, u.RSS)
		fmt.Printf("  restart %v\n", took.Round(time.Millisecond))
		// Something for the next start to replay.
		if _, err := replayProduce(s.Addr, "big", 1024, 128<<20); err != nil {
			return err
		}
	}
	return nil
}

// firstUse produces one batch and fetches one.
func firstUse(addr, topic string) error {
	c, err := dial(addr)
	if err != nil {
		return err
	}
	defer c.Close()
	req := produceRequest(topic, 0, makeBatch(1, 1024))
	if _, err := c.Write(frame(req)); err != nil {
		return err
	}
	if _, err := c.next(); err != nil {
		return err
	}
	return fetchOnce(c, topic, 1)
}
