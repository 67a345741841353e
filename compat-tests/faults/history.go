package main

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"polylog/compat/harness/ledger"
)

// history is what happened, in a folder: events.jsonl with the faults and what the nodes did, acks.gz
// with one line for each acknowledged record (ms, record, partition, offset), and ops.jsonl with
// each operation on offsets and topics. All times are from the beginning of the run.
type history struct {
	dir   string
	begin time.Time

	mu     sync.Mutex
	events *os.File
	ops    *os.File
	acks   *os.File
	zip    *gzip.Writer
	buf    *bufio.Writer
	err    error
}

func newHistory(dir string) (*history, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	h := &history{dir: dir, begin: time.Now()}
	for name, f := range map[string]**os.File{"events.jsonl": &h.events, "ops.jsonl": &h.ops, "acks.gz": &h.acks} {
		var err error
		if *f, err = os.Create(filepath.Join(dir, name)); err != nil {
			return nil, err
		}
	}
	var err error
	h.zip, err = gzip.NewWriterLevel(h.acks, gzip.BestSpeed)
	h.buf = bufio.NewWriterSize(h.zip, 1<<16)
	return h, err
}

// now is the time since the beginning.
func (h *history) now() time.Duration { return time.Since(h.begin) }

// event writes a line with the time, what happened and pairs of names and values.
func (h *history) event(what string, pairs ...any) {
	line := map[string]any{"ms": h.now().Milliseconds(), "event": what}
	for i := 0; i+1 < len(pairs); i += 2 {
		line[pairs[i].(string)] = pairs[i+1]
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.err = errors.Join(h.err, json.NewEncoder(h.events).Encode(line))
}

// op writes an operation.
func (h *history) op(o any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.err = errors.Join(h.err, json.NewEncoder(h.ops).Encode(o))
}

// ack writes an acknowledged record.
func (h *history) ack(p ledger.Partition, offset int64, id ledger.ID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, err := fmt.Fprintf(h.buf, "%d %v %v %d\n", h.now().Milliseconds(), id, p, offset); err != nil {
		h.err = errors.Join(h.err, err)
	}
}

func (h *history) close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return errors.Join(h.err, h.buf.Flush(), h.zip.Close(), h.acks.Close(), h.ops.Close(), h.events.Close())
}
