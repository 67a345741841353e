package kafkarest

import (
	"encoding/json"

	"github.com/valyala/fasthttp"

	"polylog/core"
	"polylog/protocols/http/publish"
	"polylog/router"
)

// maxRecords bounds the records of one request of version 2.
const maxRecords = 100_000

var errRecords = unprocessed("too many records in one request")

// produceJSON is a request of version 2. Its schemas mean nothing in the formats that have none.
type produceJSON struct {
	Records       []*producedJSON `json:"records"`
	KeySchema     *string         `json:"key_schema"`
	KeySchemaID   *int            `json:"key_schema_id"`
	ValueSchema   *string         `json:"value_schema"`
	ValueSchemaID *int            `json:"value_schema_id"`
}

// producedJSON is a record in it. Headers and a timestamp are what Strimzi's bridge has, too.
type producedJSON struct {
	Partition *int32          `json:"partition"`
	Key       json.RawMessage `json:"key"`
	Value     json.RawMessage `json:"value"`
	Headers   []headerJSON    `json:"headers"`
	Timestamp *int64          `json:"timestamp"` // ms
}

// offsetJSON is what became of a record.
type offsetJSON struct {
	Partition *int32       `json:"partition"`
	Offset    *core.Offset `json:"offset"`
	ErrorCode *int         `json:"error_code"`
	Error     *string      `json:"error"`
}

// record is a record on its way into the log.
type record struct {
	partition  int32 // -1: any
	key, value []byte
	headers    []core.RecordHeader
	time       int64 // ms
}

func (r *record) add(bs *publish.Batches, i int, partition int32) {
	bs.Add(i, partition, recordSize(r.key, r.value, r.headers), func(b *core.BatchBuilder) {
		b.Add(r.time, r.key, r.value, r.headers...)
	})
}

// produce takes records for a topic, or for one of its partitions. A record that cannot be read
// fails the request before anything is stored; one that cannot be stored fails alone.
func produce(c *call) error {
	f, ok := embedded(typeOf(c.Request.Header.ContentType()))
	if !ok {
		return &refusal{fasthttp.StatusUnsupportedMediaType, "HTTP 415 Unsupported Media Type"}
	}
	request := produceJSON{}
	if _, err := c.decode(c.front.MaxBody(), &request); err != nil {
		return err
	}
	switch n := len(request.Records); {
	case f == schema:
		return errNoSchemas
	case n == 0:
		return unprocessed("records may not be empty")
	case n > maxRecords:
		return errRecords
	}
	n := topicName(c.params.Get("topic"))
	t, err := publish.FindOrCreate(c.ctx, c.router, c.principal, n)
	if k := core.KindOf(err); k == core.NotFound || k == core.Invalid {
		return errTopicNotFound
	}
	if err != nil {
		return err
	}
	only := int32(-1)
	if c.params.Get("partition") != "" {
		if only, err = c.partition(t); err != nil {
			return err
		}
	}
	records, err := c.records(f, only, request.Records)
	if err != nil {
		return err
	}
	return c.store(t, records)
}

// records are the records of a request.
func (c *call) records(f format, only int32, all []*producedJSON) ([]record, error) {
	now := c.opts.Clock().UnixMilli()
	records := make([]record, len(all))
	for i, j := range all {
		if j == nil {
			return nil, unprocessed("a record may not be null")
		}
		r := &records[i]
		r.partition, r.time = only, now
		if only < 0 && j.Partition != nil {
			if r.partition = *j.Partition; r.partition < 0 {
				return nil, unprocessed("partition may not be negative")
			}
		}
		if j.Timestamp != nil {
			r.time = *j.Timestamp
		}
		var err error
		if r.key, err = decodeData(f, "Record key", j.Key); err != nil {
			return nil, unprocessed(refusalOf(err).Message)
		}
		if r.value, err = decodeData(f, "Record value", j.Value); err != nil {
			return nil, unprocessed(refusalOf(err).Message)
		}
		if r.headers, err = decodeHeaders(j.Headers); err != nil {
			return nil, unprocessed(refusalOf(err).Message)
		}
	}
	return records, nil
}

// store publishes records and answers what became of each.
func (c *call) store(t *router.Topic, records []record) error {
	d := publish.To(t)
	bs := d.NewBatches()
	answer := struct {
		Offsets       []offsetJSON `json:"offsets"`
		KeySchemaID   *int         `json:"key_schema_id"`
		ValueSchemaID *int         `json:"value_schema_id"`
	}{Offsets: make([]offsetJSON, len(records))}
	turn := c.turn.Add(1) // all that have no key of a request stay together
	status := fasthttp.StatusOK
	fail := func(i int, err error) {
		r := recordError(err)
		answer.Offsets[i] = offsetJSON{ErrorCode: &r.Code, Error: &r.Message}
		if r.Code == codeDenied {
			status = fasthttp.StatusForbidden
		}
	}
	for i := range records {
		r := &records[i]
		if err := d.Check(r.partition, r.key, r.time, c.opts.Clock().UnixMilli()); err != nil {
			fail(i, core.E(core.Invalid, "%v", err))
			continue
		}
		p := r.partition
		if p < 0 {
			p = d.Partition(r.key, turn)
		}
		r.add(bs, i, p)
	}
	bs.Send(c.ctx, c.router, c.principal)
	for _, b := range bs.All {
		for n, i := range b.Messages {
			if b.Result.Err != nil {
				fail(i, b.Result.Err)
				continue
			}
			answer.Offsets[i] = offsetJSON{Partition: &b.Partition, Offset: new(b.Result.Offset + core.Offset(n))}
		}
	}
	return c.answer(status, answer)
}
