// Command bench compares Polylog with Apache Kafka and with what the machine itself can do, in the
// same run: the brokers take turns (A B A B), every number is a median over the rounds, equal
// durability stands beside equal durability, and each rate has the server's CPU time beside it.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"polylog/bench/command"
	"polylog/bench/prime"
	"polylog/compat/harness"
)

type bench struct {
	bin, libs, work string
	rounds          int
	replayBytes     int64 // of 1 KiB records, a run
	smallBytes      int64 // of 100 B records, a run
	officialRecords int64
	restartBytes    int64
	only            string
	doc             string
	table           *table
}

// byHand is the part of the document that people write: what the figures mean.
func byHand(doc []byte) []byte {
	const heading = "\n## What limits each row"
	if i := bytes.Index(doc, []byte(heading)); i >= 0 {
		return doc[i:]
	}
	return nil
}

func main() {
	var b bench
	var bare, file string
	var gib, restart float64
	flag.StringVar(&b.bin, "bin", "../bin/polylog", "Polylog's binary")
	flag.StringVar(&b.libs, "libs", "../.cache/kafka/tools", "folder of Apache Kafka's jars")
	flag.StringVar(&b.work, "work", "../bench-data", "folder for data; its disk is what is measured")
	flag.StringVar(&b.doc, "doc", "", "file to write the table to, as Markdown")
	flag.StringVar(&b.only, "only", "", "comma-separated parts: bare, replay, official, small, restart; empty is all")
	flag.IntVar(&b.rounds, "rounds", 5, "rounds; every number is the median of these")
	flag.Float64Var(&gib, "gib", 2, "GiB of 1 KiB records that the replayer sends, a run")
	flag.Int64Var(&b.officialRecords, "records", 1_000_000, "records that Kafka's own tools send, a run")
	flag.Float64Var(&restart, "restart-gib", 10, "GiB of log for the restart")
	replicated := flag.Bool("cluster", false, "measure three nodes against one instead")
	flag.StringVar(&bare, "bare", "", "")
	flag.StringVar(&file, "file", "", "")
	flag.Parse()
	b.replayBytes, b.smallBytes, b.restartBytes = int64(gib*(1<<30)), int64(gib*(1<<29)), int64(restart*(1<<30))
	switch {
	case bare != "":
		command.End(bareServer(bare, file)) // it is killed
	case *replicated:
		command.Main(b.replicated)
	default:
		command.Main(b.run)
	}
}

func (b *bench) want(part string) bool { return command.Wanted(b.only, part) }

// contender is a broker in one durability class.
type contender struct {
	name  string // row of the table
	class string // os or sync
	start func(ctx context.Context, dir string) (*harness.Broker, error)
}

func (b *bench) contenders() []contender {
	polylog := func(flush string) func(context.Context, string) (*harness.Broker, error) {
		return func(ctx context.Context, dir string) (*harness.Broker, error) {
			return harness.Polylog{Bin: b.bin, Dir: dir, Flush: flush}.Start(ctx)
		}
	}
	apache := func(props map[string]string) func(context.Context, string) (*harness.Broker, error) {
		return func(ctx context.Context, dir string) (*harness.Broker, error) {
			return harness.Apache{Libs: b.libs, Dir: dir, Props: props}.Start(ctx)
		}
	}
	return []contender{
		{"polylog", "os", polylog("os")},
		{"kafka", "os", apache(nil)},
		{"polylog", "sync", polylog("sync")},
		{"kafka", "sync", apache(map[string]string{"log.flush.interval.messages": "1"})},
	}
}

// prepare makes the folder for data, with what Kafka's tools log nothing by.
func (b *bench) prepare() error {
	if err := command.Absolute(&b.bin, &b.libs, &b.work); err != nil {
		return err
	}
	if err := os.MkdirAll(b.work, 0o755); err != nil {
		return err
	}
	quiet := `<Configuration status="ERROR"><Loggers><Root level="ERROR"/></Loggers></Configuration>`
	return os.WriteFile(filepath.Join(b.work, "log4j2.xml"), []byte(quiet), 0o644)
}

func (b *bench) run(ctx context.Context) error {
	if err := b.prepare(); err != nil {
		return err
	}
	b.table = newTable(b)
	for round := 1; round <= b.rounds; round++ {
		fmt.Printf("round %d of %d\n", round, b.rounds)
		if b.want("bare") {
			if err := b.bare(); err != nil {
				return err
			}
		}
		for _, c := range b.contenders() {
			if err := b.contend(ctx, c); err != nil {
				return fmt.Errorf("%s, %s: %w", c.name, c.class, err)
			}
		}
		b.table.rounds = round
		if err := b.write(); err != nil { // what there is, should the rest not come
			return err
		}
	}
	if b.want("restart") {
		if err := b.restart(ctx); err != nil {
			return fmt.Errorf("restart: %w", err)
		}
	}
	fmt.Print(b.table.markdown())
	return b.write()
}

func (b *bench) write() error {
	if b.doc == "" {
		return nil
	}
	old, err := os.ReadFile(b.doc)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.WriteFile(b.doc, append([]byte(b.table.markdown()), byHand(old)...), 0o644)
}

// bare takes one sample of each of the machine's limits.
func (b *bench) bare() error {
	for _, flush := range []bool{false, true} {
		if err := prime.Fill(b.work); err != nil {
			return err
		}
		r, err := bareIngest(b.work, flush, b.replayBytes)
		if err != nil {
			return err
		}
		row := rowBareWrite
		if flush {
			row = rowBareSync
		}
		b.table.add(row, "bare", r.mbps(), 0, 0)
	}
	if err := prime.Fill(b.work); err != nil {
		return err
	}
	r, err := bareCatchUp(b.work, b.replayBytes)
	if err != nil {
		return err
	}
	b.table.add(rowBareRead, "bare", r.mbps(), 0, 0)
	p50, p99, err := fdatasyncLatency(b.work, 2000)
	if err != nil {
		return err
	}
	b.table.add(rowFdatasync, "bare", micros(p50), 0, 0)
	b.table.add(rowFdatasync99, "bare", micros(p99), 0, 0)
	return nil
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// contend starts one broker with no data and takes one sample of each row.
func (b *bench) contend(ctx context.Context, c contender) (err error) {
	if err := prime.Fill(b.work); err != nil {
		return err
	}
	dir := filepath.Join(b.work, c.name+"-"+c.class)
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	limit, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	s, err := c.start(limit, dir)
	if err != nil {
		return err
	}
	defer func() {
		s.Kill()
		err = errors.Join(err, os.RemoveAll(dir))
	}()
	if c.class == "os" {
		u, err := s.Usage()
		if err != nil {
			return err
		}
		b.table.add(rowReady, c.name, float64(s.Ready.Milliseconds()), 0, u.RSS)
	}
	if b.want("small") && c.class == "sync" {
		if err := createTopic(limit, s.Addr, "one", 1); err != nil {
			return err
		}
		p50, p99, err := oneAtATime(s.Addr, "one", 2000)
		if err != nil {
			return err
		}
		b.table.add(rowOne, c.name, micros(p50), 0, 0)
		b.table.add(rowOne99, c.name, micros(p99), 0, 0)
	}
	if b.want("replay") {
		if err := b.replay(limit, c, s); err != nil {
			return err
		}
	}
	if b.want("official") {
		return b.official(limit, c, s, dir)
	}
	return nil
}

func (b *bench) replay(ctx context.Context, c contender, s *harness.Broker) error {
	if err := createTopic(ctx, s.Addr, "kib", partitions); err != nil {
		return err
	}
	var sent result
	err := b.measure(produceRow("replay 1 KiB", c.class), c, s, func() (r result, err error) {
		sent, err = replayProduce(s.Addr, "kib", 1024, b.replayBytes)
		return sent, err
	})
	if err != nil {
		return err
	}
	if c.class == "os" {
		err := b.measure(rowCatchUp, c, s, func() (result, error) {
			r, err := catchUp(s.Addr, "kib", 1024)
			if err == nil && r.records != sent.records {
				err = fmt.Errorf("%d records came back of %d", r.records, sent.records)
			}
			return r, err
		})
		if err != nil {
			return err
		}
	}
	if err := createTopic(ctx, s.Addr, "small", partitions); err != nil {
		return err
	}
	return b.measure(produceRow("replay 100 B", c.class), c, s, func() (result, error) {
		return replayProduce(s.Addr, "small", 100, b.smallBytes)
	})
}

func (b *bench) official(ctx context.Context, c contender, s *harness.Broker, dir string) error {
	if err := createTopic(ctx, s.Addr, "official", partitions); err != nil {
		return err
	}
	err := b.measure(produceRow("official", c.class), c, s, func() (result, error) {
		return b.officialProduce(ctx, s.Addr, "official", b.officialRecords)
	})
	if err != nil || c.class != "os" {
		return err
	}
	consume := func() (result, error) { return b.officialConsume(ctx, s.Addr, "official", b.officialRecords) }
	if err := b.measure(rowConsume, c, s, consume); err != nil {
		return err
	}
	if err := prime.Forget(dir); err != nil {
		return err
	}
	return b.measure(rowConsumeDisk, c, s, consume)
}

// measure runs f and adds its rate, with the server's CPU time a record and its resident memory.
func (b *bench) measure(row string, c contender, s *harness.Broker, f func() (result, error)) error {
	before, err := s.Usage()
	if err != nil {
		return err
	}
	r, err := f()
	if err != nil {
		return fmt.Errorf("%s: %w", row, err)
	}
	after, err := s.Usage()
	if err != nil {
		return err
	}
	cpu := micros(after.CPU-before.CPU) / float64(r.records)
	b.table.add(row, c.name, r.mbps(), cpu, after.RSS)
	return nil
}
