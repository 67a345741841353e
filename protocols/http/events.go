package httpd

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"hash/crc32"
	"math"
	"net"
	"net/http"
	"strconv"
	"time"

	"polylog/core"
	"polylog/core/wire"
	"polylog/router"
)

// maxStreamed bounds the partitions of a stream: each event's id has the offsets of all.
const maxStreamed = 256

// resume is where a stream goes on: for each partition the next offset. In text it is opaque: version byte, the topic's mark as
// u32, count uvarint, offsets uvarint. Version 1 had no mark.
type resume []core.Offset

const (
	firstResume   = 1
	resumeVersion = 2
)

// markOf tells a topic from one of its name that was deleted: offsets of that one mean nothing here.
func markOf(t *router.Topic) uint32 { return crc32.ChecksumIEEE([]byte(t.ID.String())) }

func (r resume) encode(mark uint32) string {
	b := wire.AppendUvarint(wire.AppendUint32([]byte{resumeVersion}, mark), uint64(len(r)))
	for _, o := range r {
		b = wire.AppendUvarint(b, uint64(o))
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

// decodeResume reads one of a topic with a mark; of another topic nothing is taken.
func decodeResume(text string, mark uint32) (all resume, err error) {
	b, err := base64.RawURLEncoding.DecodeString(text)
	r := wire.NewReader(b)
	version, of := r.Byte(), mark
	if version == resumeVersion {
		of = r.Uint32()
	}
	all = make(resume, r.Count(1))
	for i := range all {
		all[i] = core.Offset(min(r.Uvarint(), math.MaxInt64))
	}
	switch {
	case err != nil || version < firstResume || version > resumeVersion || r.Close() != nil:
		return nil, invalid("Last-Event-ID is none of ours")
	case of != mark:
		return nil, nil
	}
	return all, nil
}

// streamTopic sends a topic's messages as server-sent events, without consuming: what is there
// from a place on, and what comes, until the client is gone.
func streamTopic(c *call) error {
	if err := c.onlyQuery("partition", "offset", "from", "lastEventId"); err != nil {
		return err
	}
	t, err := c.topic(router.OpRead)
	if err != nil {
		return err
	}
	partition, err := c.number("partition", -1, 0, int64(len(t.Partitions)-1))
	if err != nil {
		return err
	}
	e := events{mark: markOf(t), queues: t.Partitions, first: int32(max(partition, 0))}
	if partition >= 0 {
		e.queues = t.Partitions[partition : partition+1]
	}
	if n := len(e.queues); n > maxStreamed {
		return invalid("the topic has %d partitions, a stream at most %d: say one with partition", n, maxStreamed)
	}
	if err := e.begin(c); err != nil {
		return err
	}
	if c.IsHead() {
		c.SetContentType(eventStream)
		return nil
	}
	return c.stream(e.run)
}

const eventStream = "text/event-stream"

// events is a stream of the messages of some partitions.
type events struct {
	mark   uint32 // of the topic
	queues []core.QueueID
	first  int32  // the number of the first one
	at     resume // the next offset of each
}

// begin is where the stream starts: at what the client had last, or where it says, or at the end.
func (e *events) begin(c *call) (err error) {
	last := c.Request.Header.Peek("Last-Event-ID")
	if last == nil {
		last = c.QueryArgs().Peek("lastEventId")
	}
	if last != nil {
		if e.at, err = decodeResume(string(last), e.mark); err == nil && len(e.at) > len(e.queues) {
			err = invalid("Last-Event-ID is of another topic or partition")
		}
		for len(e.at) < len(e.queues) { // partitions that are new, of a topic that may be
			e.at = append(e.at, 0)
		}
		return err
	}
	offset, err := c.number("offset", -1, 0, math.MaxInt64)
	if err != nil {
		return err
	}
	if offset >= 0 && len(e.queues) > 1 {
		return invalid("offset needs a partition")
	}
	from := string(c.QueryArgs().Peek("from"))
	for _, q := range e.queues {
		h, err := c.router.Head(q)
		if err != nil {
			return err
		}
		at := h.Stable
		switch {
		case offset >= 0:
			at = core.Offset(offset)
		case from == "start":
			at = h.Start
		case from != "" && from != "latest":
			ms, err := timeOf(from)
			if err != nil {
				return invalid("from: want latest, start or a time: %v", err)
			}
			if o, _, ok, err := c.router.OffsetByTime(c.ctx, q, ms); err != nil {
				return err
			} else if ok {
				at = o
			}
		}
		e.at = append(e.at, at)
	}
	return nil
}

const eventsHead = "HTTP/1.1 200 OK\r\nServer: polylog\r\nContent-Type: " + eventStream +
	"\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n: hello\n\n"

// run sends events until the client is gone or the data plane is closed.
func (e *events) run(c *call, conn net.Conn) {
	gone := closedBy(conn)
	defer func() {
		_ = conn.Close()
		<-gone
	}()
	wake := make(chan struct{}, 1)
	stop := c.router.Watch(e.queues, func() {
		select {
		case wake <- struct{}{}:
		default:
		}
	})
	defer stop()
	send := func(b []byte) bool {
		_ = conn.SetWriteDeadline(time.Now().Add(writeTime(len(b))))
		_, err := conn.Write(b)
		return err == nil
	}
	if !send([]byte(eventsHead)) {
		return
	}
	idle := time.NewTicker(heartbeat)
	defer idle.Stop()
	for {
		more, err := e.pass(c, send)
		select {
		case <-c.over:
			err = errLoggedOut
		default:
		}
		if err != nil {
			p := *problemOf(err)
			p.Title = http.StatusText(p.Status)
			if text, err := json.Marshal(&p); err == nil {
				send(append(append([]byte("event: error\ndata: "), text...), "\n\n"...))
			}
			return
		}
		if more {
			idle.Reset(heartbeat)
			select {
			case <-gone:
				return
			case <-c.api.gate.Context().Done():
				return
			default:
				continue
			}
		}
		select {
		case <-wake:
		case <-idle.C:
			if !send([]byte(": hb\n\n")) {
				return
			}
		case <-c.over:
		case <-gone:
			return
		case <-c.api.gate.Context().Done():
			return
		}
	}
}

// passBytes is how much of a partition is sent before the next one has its turn.
const passBytes = 256 << 10

// pass sends what is there, a piece of each partition. more is true where there may be more.
// Its error is core.Closed where the client is gone.
func (e *events) pass(c *call, send func([]byte) bool) (more bool, err error) {
	var b bytes.Buffer
	for i, q := range e.queues {
		from := e.at[i]
		next, err := c.router.Browse(c.principal, q, from, math.MaxInt64, passBytes, func(r router.Browsed) bool {
			e.at[i] = r.Offset + 1
			e.write(&b, e.first+int32(i), &r.Record)
			return b.Len() < passBytes
		})
		if err != nil {
			return false, err
		}
		// What is left out, such as control records, is passed over too. A page that was full
		// ends behind the last record that was written.
		h, err := c.router.Head(q)
		if err != nil {
			return false, err
		}
		e.at[i] = max(e.at[i], min(next, h.Stable))
		more = more || e.at[i] > from
		if b.Len() > 0 && !send(b.Bytes()) {
			return false, core.E(core.Closed, "the client is gone, or takes nothing")
		}
		select {
		case <-c.api.gate.Context().Done(): // a slow reader does not hold it up
			return true, nil
		default:
		}
		b.Reset()
	}
	return more, nil
}

// write appends an event. JSON has no line breaks, so its data is one line.
func (e *events) write(b *bytes.Buffer, partition int32, r *core.Record) {
	text, err := json.Marshal(outgoing(partition, r, 0))
	if err != nil {
		text = []byte(strconv.Quote("message " + messageID(partition, r.Offset) + " cannot be shown"))
	}
	b.WriteString("id: ")
	b.WriteString(e.at.encode(e.mark))
	b.WriteString("\ndata: ")
	b.Write(text)
	b.WriteString("\n\n")
}
