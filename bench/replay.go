package main

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// What the replayer sends: a batch a request, several requests in flight on each of a few
// connections, each with partitions of its own.
const (
	batchBytes  = 512 << 10
	connections = 3
	inFlight    = 4
	partitions  = 6
)

// result is one measured run.
type result struct {
	records int64
	bytes   int64 // of values
	took    time.Duration
}

func (r result) mbps() float64 { return float64(r.bytes) / 1e6 / r.took.Seconds() }

func produceRequest(topic string, part int32, batch []byte) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.Version, req.Acks, req.TimeoutMillis = 9, -1, 30_000
	t := kmsg.NewProduceRequestTopic()
	t.Topic = topic
	p := kmsg.NewProduceRequestTopicPartition()
	p.Partition, p.Records = part, batch
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return req
}

// replayProduce sends total bytes of values in pre-encoded batches and waits for every answer.
func replayProduce(addr, topic string, size int, total int64) (result, error) {
	perBatch := max(1, batchBytes/(size+12))
	batch := makeBatch(perBatch, size)
	requests := int(total / int64(perBatch*size) / connections)
	errs := make(chan error, connections)
	begin := time.Now()
	for i := range connections {
		go func() { errs <- replayConn(addr, topic, batch, i, requests) }()
	}
	for range connections {
		if err := <-errs; err != nil {
			return result{}, err
		}
	}
	n := int64(connections * requests * perBatch)
	return result{records: n, bytes: n * int64(size), took: time.Since(begin)}, nil
}

func replayConn(addr, topic string, batch []byte, num, requests int) error {
	c, err := dial(addr)
	if err != nil {
		return err
	}
	defer c.Close()
	var frames [][]byte
	for p := num; p < partitions; p += connections {
		frames = append(frames, frame(produceRequest(topic, int32(p), batch)))
	}
	req := produceRequest(topic, 0, nil)
	window := make(chan struct{}, inFlight)
	done := make(chan error, 1)
	go func() {
		var resp kmsg.ProduceResponse
		for range requests {
			f, err := c.next()
			if err == nil {
				err = body(req, &resp, f)
			}
			if err == nil {
				if code := resp.Topics[0].Partitions[0].ErrorCode; code != 0 {
					err = fmt.Errorf("produce: code %d", code)
				}
			}
			if err != nil {
				_ = c.Close() // unblocks the writer
				done <- err
				return
			}
			<-window
		}
		done <- nil
	}()
	for i := range requests {
		select {
		case window <- struct{}{}:
		case err := <-done:
			return err
		}
		f := frames[i%len(frames)]
		binary.BigEndian.PutUint32(f[8:], uint32(i))
		if _, err := c.Write(f); err != nil {
			return err
		}
	}
	return <-done
}

// catchUp reads every partition from its start to its end and throws the records away.
func catchUp(addr, topic string, size int) (result, error) {
	type out struct {
		n   int64
		err error
	}
	outs := make(chan out, partitions)
	begin := time.Now()
	for p := range int32(partitions) {
		go func() {
			n, err := fetchAll(addr, topic, p)
			outs <- out{n, err}
		}()
	}
	var n int64
	for range partitions {
		o := <-outs
		if o.err != nil {
			return result{}, o.err
		}
		n += o.n
	}
	return result{records: n, bytes: n * int64(size), took: time.Since(begin)}, nil
}

func fetchAll(addr, topic string, part int32) (int64, error) {
	c, err := dial(addr)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	end, code, err := endOffset(c, topic, part)
	if err != nil || code != 0 {
		return 0, fmt.Errorf("end of partition %d: code %d: %w", part, code, err)
	}
	req := fetchRequest(topic, part)
	var resp kmsg.FetchResponse
	var records int64
	for at := int64(0); at < end; {
		req.Topics[0].Partitions[0].FetchOffset = at
		if err := c.ask(req, &resp); err != nil {
			return 0, err
		}
		if resp.ErrorCode != 0 || resp.Topics[0].Partitions[0].ErrorCode != 0 {
			return 0, fmt.Errorf("fetch: codes %d, %d", resp.ErrorCode, resp.Topics[0].Partitions[0].ErrorCode)
		}
		before := at
		walkBatches(resp.Topics[0].Partitions[0].RecordBatches, func(base int64, count int) {
			at = base + int64(count)
			records += int64(count)
		})
		if at == before {
			return 0, fmt.Errorf("fetch at %d of %d gave nothing", at, end)
		}
	}
	return records, nil
}

func fetchRequest(topic string, part int32) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.Version, req.MaxWaitMillis, req.MinBytes, req.MaxBytes = 12, 500, 1, 8<<20
	t := kmsg.NewFetchRequestTopic()
	t.Topic = topic
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.PartitionMaxBytes, p.CurrentLeaderEpoch = part, 8<<20, -1
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return req
}

// fetchOnce reads the first batches of a partition.
func fetchOnce(c *conn, topic string, part int32) error {
	var resp kmsg.FetchResponse
	if err := c.ask(fetchRequest(topic, part), &resp); err != nil {
		return err
	}
	p := resp.Topics[0].Partitions[0]
	if p.ErrorCode != 0 || len(p.RecordBatches) == 0 {
		return fmt.Errorf("fetch: code %d, %d bytes", p.ErrorCode, len(p.RecordBatches))
	}
	return nil
}

// oneAtATime produces single small records, each after the last one's answer, and gives the
// median and the 99th percentile.
func oneAtATime(addr, topic string, n int) (p50, p99 time.Duration, err error) {
	c, err := dial(addr)
	if err != nil {
		return 0, 0, err
	}
	defer c.Close()
	req := produceRequest(topic, 0, makeBatch(1, 100))
	f := frame(req)
	took := make([]time.Duration, 0, n)
	for i := range n {
		begin := time.Now()
		if _, err := c.Write(f); err != nil {
			return 0, 0, err
		}
		answer, err := c.next()
		if err != nil {
			return 0, 0, err
		}
		took = append(took, time.Since(begin))
		var resp kmsg.ProduceResponse
		if err := body(req, &resp, answer); err != nil {
			return 0, 0, err
		}
		if p := resp.Topics[0].Partitions[0]; p.ErrorCode != 0 || p.BaseOffset != int64(i) {
			return 0, 0, fmt.Errorf("record %d: code %d, offset %d", i, p.ErrorCode, p.BaseOffset)
		}
	}
	slices.Sort(took)
	return took[n/2], took[n*99/100], nil
}
