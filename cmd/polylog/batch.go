package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"polylog/cmd/polylog/rest"
)

// Bounds of a batch. Each is stored in one step, which bounds it (message.max.bytes), and one of an import is found by its
// first line when it is sent again: with other bounds an import that was interrupted would not go on right.
const (
	batchMessages = 1000
	batchBytes    = 256 << 10
)

// batch is what one request publishes, a message a line.
type batch struct {
	body  bytes.Buffer
	at    []int64 // the line of each message, counting from the batch's first
	lines int     // that it is made of, empty ones too
}

// add is false where there is no room for a message.
func (b *batch) add(message []byte) bool {
	if n := len(b.at); n == batchMessages || n > 0 && b.body.Len()+len(message) > batchBytes {
		return false
	}
	b.at = append(b.at, int64(b.lines))
	b.lines++
	b.body.Write(message)
	b.body.WriteByte('\n')
	return true
}

// published is what became of a message.
type published struct {
	Status int
	Detail string
}

// publish publishes a batch: for each message, in their order, what became of it. Where that cannot be known, nothing is
// stored twice when it is asked for again with the same key.
func (b *batch) publish(ctx context.Context, c *rest.Client, topic, key string) ([]published, error) {
	r := rest.Request{
		Method: http.MethodPost, Path: c.Path("topics", topic, "messages"),
		Body: &rest.Body{Type: "application/x-ndjson", Data: b.body.Bytes()},
	}
	if len(b.at) > 1 { // a single message would get the key as its message id
		r.Again, r.Header = true, http.Header{"Idempotency-Key": {key}}
	}
	var answer struct{ Results []published }
	err := c.Do(ctx, r, &answer)
	if p, ok := errors.AsType[*rest.Problem](err); ok && p.Results != nil { // none of them can be taken
		err = json.Unmarshal(p.Results, &answer.Results)
	}
	return answer.Results, err
}
