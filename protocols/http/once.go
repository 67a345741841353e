package httpd

import (
	"hash/crc32"
	"time"

	"polylog/core"
	"polylog/protocols/http/publish"
	"polylog/router"
)

// idempotencyKey is the header under which a request is done once, however often it is sent.
const idempotencyKey = "Idempotency-Key"

const maxIdempotencyKey = 255 // bytes

// idempotencyWindow is how long a key is known.
const idempotencyWindow = time.Hour

// noIdempotencyKey refuses the header where it would not be kept to.
func (c *call) noIdempotencyKey() error {
	if len(c.Request.Header.Peek(idempotencyKey)) > 0 {
		return core.E(core.Unsupported, "%s is for topics alone", idempotencyKey)
	}
	return nil
}

// publishOnce publishes what can be taken of the messages in one step, unless that was done
// under the key before: then the answer is the same.
func (c *call) publishOnce(t *router.Topic, d *publish.Destination, key string, ms []incoming) error {
	if len(key) > maxIdempotencyKey {
		return invalid("%s has %d bytes, at most %d are allowed", idempotencyKey, len(key), maxIdempotencyKey)
	}
	if len(ms) == 1 && ms[0].MessageID == "" {
		ms[0].MessageID = key
	}
	// Messages without a key must go to the same partition each time.
	c.turn = crc32.ChecksumIEEE([]byte(key)) | 1
	results := make([]resultJSON, len(ms))
	batches := c.batches(d, ms, results)
	if len(batches.All) == 0 {
		return c.answerEach(results)
	}
	send := make([]router.QueueBatch, len(batches.All))
	for i, b := range batches.All {
		data, err := b.Build(d)
		if err != nil {
			return err
		}
		send[i] = router.QueueBatch{Queue: d.Queues[b.Partition], Data: data}
	}
	offsets, replayed, err := c.router.PublishOnce(c.ctx, c.principal, t, key, [16]byte(c.digest[:16]), idempotencyWindow, send)
	if err != nil {
		return err
	}
	if replayed {
		c.Response.Header.Set("Idempotency-Replayed", "true")
	}
	for i, b := range batches.All {
		if len(offsets) != len(batches.All) { // the topic was changed since: all is stored, elsewhere
			for _, at := range b.Messages {
				results[at] = resultJSON{Status: 200}
			}
			continue
		}
		b.Result.Offset = offsets[i]
		report(b, results)
	}
	return c.answerEach(results)
}
