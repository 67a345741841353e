package kafkarest

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"polylog/core"
	"polylog/protocols/http/front"
	"polylog/protocols/http/publish"
	"polylog/router"
)

// Version 3 takes records as JSON objects one behind the other, for as long as the client keeps
// its request open, and gives one answer for each, in order, as soon as it is stored. So reading
// the request and writing the answer go on at the same time: recordStream is the answer's body,
// which fasthttp reads from on the connection's own goroutine, and reads the request's as it goes.
// Records that are there together are published together.

// How long a stream may stay silent between two records, and how long its client may take to read.
const (
	streamIdle  = 5 * time.Minute
	streamWrite = 30 * time.Second
)

// streamBatch bounds the records that are published together.
const streamBatch = 1000

// recordV3JSON is a record in version 3.
type recordV3JSON struct {
	Partition *int32       `json:"partition_id"`
	Headers   []headerJSON `json:"headers"`
	Key       *dataV3JSON  `json:"key"`
	Value     *dataV3JSON  `json:"value"`
	Timestamp *time.Time   `json:"timestamp"`
}

// dataV3JSON is a key or a value. What names a schema is refused: there is no registry.
type dataV3JSON struct {
	Type     *string         `json:"type"`
	Data     json.RawMessage `json:"data"`
	Subject  *string         `json:"subject"`
	Strategy *string         `json:"subject_name_strategy"`
	SchemaID *int            `json:"schema_id"`
	Version  *int            `json:"schema_version"`
	Schema   *string         `json:"schema"`
}

// storedJSON is what became of a record: where it is, or, with another code than 200, why it is
// nowhere.
type storedJSON struct {
	ErrorCode int         `json:"error_code"`
	ClusterID string      `json:"cluster_id"`
	TopicName string      `json:"topic_name"`
	Partition int32       `json:"partition_id"`
	Offset    core.Offset `json:"offset"`
	Timestamp time.Time   `json:"timestamp"`
	Key       *sizeJSON   `json:"key,omitempty"`
	Value     *sizeJSON   `json:"value,omitempty"`
}

type sizeJSON struct {
	Type string `json:"type"`
	Size int    `json:"size"`
}

// typesV3 are the formats of version 3 that need no schema.
var typesV3 = map[string]format{"BINARY": asBase64, "JSON": asJSON, "STRING": asText}

// decode is the data as it is stored, and what is said of it in the answer.
func (d *dataV3JSON) decode() ([]byte, *sizeJSON, error) {
	if d == nil {
		return nil, nil, nil
	}
	kind := "BINARY"
	if d.Type != nil {
		kind = *d.Type
	}
	f, ok := typesV3[kind]
	switch {
	case ok && (d.Subject != nil || d.Strategy != nil || d.SchemaID != nil || d.Version != nil || d.Schema != nil) && d.Type != nil:
		return nil, nil, &refusal{400, "Bad Request: 'type=" + kind + "' cannot be used with a schema."}
	case !ok && (kind == "AVRO" || kind == "JSONSCHEMA" || kind == "PROTOBUF"), d.SchemaID != nil, d.Version != nil, d.Schema != nil, d.Subject != nil, d.Strategy != nil:
		return nil, nil, errNoSchemas
	case !ok:
		return nil, nil, &refusal{400, "Bad Request: " + kind + " is no type of data."}
	}
	b, err := decodeData(f, "data", d.Data)
	return b, &sizeJSON{kind, len(b)}, err
}

// produceV3 begins a stream. The proxy does not look at the cluster's name here.
func produceV3(c *call) error {
	if kind := typeOf(c.Request.Header.ContentType()); kind != typeJSON {
		return &refusal{fasthttp.StatusUnsupportedMediaType, "HTTP 415 Unsupported Media Type"}
	}
	if front.BothLengths(c.RequestCtx) {
		return &refusal{400, "Bad Request: both Content-Length and Transfer-Encoding are given"}
	}
	n := topicName(c.params.Get("topic"))
	if err := c.may(router.OpWrite, router.ResourceTopic, n); err != nil {
		return err
	}
	in := c.RequestBodyStream()
	s := &recordStream{call: c, topic: n, in: in, turn: c.turn.Add(1), conn: c.Conn()}
	if in == nil {
		s.ended = true
		if s.buf = c.PostBody(); len(s.buf) == 0 {
			return &refusal{42206, "Payload error. Request body is empty. Data is required."}
		}
	} else if c.Request.Header.ContentLength() == 0 {
		return &refusal{42206, "Payload error. Request body is empty. Data is required."}
	}
	s.leave = c.router.WhileLoggedIn(c.principal, func() {
		s.over.Store(true)
		s.hurry()
	})
	c.kept = true
	c.SetStatusCode(fasthttp.StatusOK)
	c.SetContentType(typeJSON)
	c.front.Stream(c.RequestCtx, s)
	return nil
}

// recordStream is the body of the answer.
type recordStream struct {
	*call
	topic core.Name
	conn  net.Conn
	in    io.Reader // the request's body; nil: all of it is in buf
	turn  uint32    // of records without a key

	buf    []byte // what was read and is not decoded yet
	scan   scanner
	held   int    // of the budget, for buf
	out    []byte // answers that were not read yet
	ended  bool   // the request's body has no more
	broken bool   // nothing more is answered: where the next record begins is not known
	closed bool
	over   atomic.Bool // the principal is not who it was
	leave  func()
}

var errLoggedOut = &refusal{codeUnauthorized, "the user is gone, has another password, or there was none: log in again"}

// Read implements io.Reader: it is what brings the stream on.
func (s *recordStream) Read(p []byte) (int, error) {
	for len(s.out) == 0 {
		if s.broken {
			if !s.ended {
				front.Drain(s.RequestCtx) // or the client would see a reset instead of why
				s.ended = true
			}
			return 0, io.EOF
		}
		if err := s.step(); err != nil {
			return 0, err
		}
	}
	if err := s.SetWriteDeadline(time.Now().Add(streamWrite)); err != nil {
		return 0, err
	}
	n := copy(p, s.out)
	s.out = s.out[n:]
	return n, nil
}

// Close implements io.Closer.
func (s *recordStream) Close() error {
	if !s.closed {
		s.closed = true
		s.leave()
		s.release()
	}
	return nil
}

// step stores what was read, or reads more.
func (s *recordStream) step() error {
	var records []json.RawMessage
	used := 0
	for len(records) < streamBatch {
		n, err := s.scan.next(s.buf[used:])
		if err != nil {
			s.flush(records)
			s.fail(err)
			return nil
		}
		if n == 0 {
			break
		}
		records = append(records, s.buf[used:used+n])
		used += n
	}
	s.flush(records)
	s.buf = s.buf[used:]
	switch {
	case len(records) > 0:
		return nil
	case !s.ended:
		return s.fill()
	case len(trimSpace(s.buf)) > 0:
		s.fail(badJSON("it ends in the middle", int64(len(s.buf))))
	default:
		s.broken = true
	}
	return nil
}

// hurry ends a read that waits. It may be called when the stream has just ended, and its call is another one's.
func (s *recordStream) hurry() { _ = s.conn.SetReadDeadline(time.Unix(1, 0)) }

// fail answers that the rest of the request cannot be read.
func (s *recordStream) fail(err error) {
	s.broken = true
	s.SetConnectionClose()
	s.reply(refusalOf(err))
}

// fill reads more of the request.
func (s *recordStream) fill() error {
	limit := s.front.MaxBody()
	if len(s.buf) == cap(s.buf) {
		size := min(max(2*len(s.buf), 32<<10), limit+1)
		if more := size - s.held; more > 0 {
			if !s.budget.Take(int64(more)) {
				s.fail(core.E(core.Unavailable, "the bodies of other requests fill http-request-memory"))
				return nil
			}
			s.held += more
		}
		if size <= len(s.buf) {
			s.fail(&refusal{413, "Request Entity Too Large: a record has more than the limit of bytes"})
			return nil
		}
		s.buf = append(make([]byte, 0, size), s.buf...)
	}
	if err := s.SetReadDeadline(time.Now().Add(streamIdle)); err != nil {
		return err
	}
	if s.over.Load() {
		s.fail(errLoggedOut)
		return nil
	}
	stop := context.AfterFunc(s.gate.Context(), s.hurry)
	n, err := s.in.Read(s.buf[len(s.buf):cap(s.buf)])
	stop()
	s.buf = s.buf[:len(s.buf)+n]
	timeout := net.Error(nil)
	switch {
	case err == nil:
	case err == io.EOF:
		s.ended = true
	case s.over.Load():
		s.fail(errLoggedOut)
	case errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		s.fail(&refusal{408, "Request Timeout: Streaming connection open for longer than allowed: Connection will be closed."})
	default:
		return err // the client is gone
	}
	return nil
}

// reply appends an answer.
func (s *recordStream) reply(v any) {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // our own types always encode
	}
	s.out = append(append(s.out, b...), '\r', '\n')
}

// flush stores records and appends an answer for each.
func (s *recordStream) flush(all []json.RawMessage) {
	if len(all) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(s.gate.Context(), front.CallTimeout)
	defer cancel()
	answers := make([]any, len(all))
	defer func() {
		for _, a := range answers {
			s.reply(a)
		}
	}()
	if s.over.Load() {
		for i := range answers {
			answers[i] = errLoggedOut
		}
		return
	}
	t, err := publish.FindOrCreate(ctx, s.router, s.principal, s.topic)
	if k := core.KindOf(err); k == core.NotFound || k == core.Invalid {
		err = errNoSuchTopicV3
	}
	if err != nil {
		for i := range answers {
			answers[i] = refusalOf(err)
		}
		return
	}
	d := publish.To(t)
	bs := d.NewBatches()
	now := s.opts.Clock().UnixMilli()
	stored := make([]*storedJSON, len(all))
	for i, raw := range all {
		r, j, err := decodeV3(raw, now)
		if err == nil && int(r.partition) >= len(d.Queues) {
			err = errPartitionNotFound
		}
		if err == nil {
			err = d.Check(r.partition, r.key, r.time, now)
		}
		if err != nil {
			answers[i] = refusalOf(err)
			continue
		}
		p := r.partition
		if p < 0 {
			p = d.Partition(r.key, s.turn)
		}
		j.ClusterID, j.TopicName, j.Partition = s.router.Cluster().ClusterID, t.Name.Name, p
		stored[i], answers[i] = j, j
		r.add(bs, i, p)
	}
	bs.Send(ctx, s.router, s.principal)
	for _, b := range bs.All {
		for n, i := range b.Messages {
			if b.Result.Err != nil {
				answers[i] = refusalOf(b.Result.Err)
				continue
			}
			stored[i].Offset = b.Result.Offset + core.Offset(n)
			if at := b.Result.AppendTime; at >= 0 && d.Topic.LogAppendTime {
				stored[i].Timestamp = front.Time(at)
			}
		}
	}
}

// decodeV3 reads a record, and begins what is answered.
func decodeV3(raw json.RawMessage, now int64) (r record, j *storedJSON, err error) {
	in := recordV3JSON{}
	if err := decodeJSON(raw, &in); err != nil {
		return r, nil, err
	}
	r = record{partition: -1, time: now}
	if in.Partition != nil {
		if r.partition = *in.Partition; r.partition < 0 {
			return r, nil, errPartitionNotFound
		}
	}
	if in.Timestamp != nil {
		r.time = in.Timestamp.UnixMilli()
	}
	j = &storedJSON{ErrorCode: 200, Timestamp: front.Time(r.time)}
	if r.headers, err = decodeHeaders(in.Headers); err != nil {
		return r, nil, err
	}
	if r.key, j.Key, err = in.Key.decode(); err != nil {
		return r, nil, err
	}
	r.value, j.Value, err = in.Value.decode()
	return r, j, err
}
