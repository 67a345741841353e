package httpd

import (
	"bytes"
	"encoding/base64"
	"math"

	"polylog/core"
	"polylog/core/message"
	"polylog/core/wire"
	"polylog/router"
)

// Browsing reads without consuming. A page ends when it is full, or when enough was looked
// at; the cursor that comes with it goes on there.
const (
	browseBytes = 4 << 20  // of values in a page
	browseScan  = 16 << 20 // of records that are looked at for a page
)

// position is where the next page begins: a partition, an offset in it, and the offsets
// that every partition ended at when the first page was made.
type position struct {
	partition int
	offset    core.Offset
	ends      []core.Offset
}

const cursorVersion = 1

func (p *position) encode() string {
	b := wire.AppendUvarint([]byte{cursorVersion}, uint64(p.partition))
	b = wire.AppendUvarint(b, uint64(p.offset))
	b = wire.AppendUvarint(b, uint64(len(p.ends)))
	for _, e := range p.ends {
		b = wire.AppendUvarint(b, uint64(e))
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

func decodePosition(text string) (p position, err error) {
	b, err := base64.RawURLEncoding.DecodeString(text)
	r := wire.NewReader(b)
	version := r.Byte()
	p.partition, p.offset = int(min(r.Uvarint(), math.MaxInt32)), core.Offset(r.Uvarint())
	p.ends = make([]core.Offset, r.Count(1))
	for i := range p.ends {
		p.ends[i] = core.Offset(r.Uvarint())
	}
	if err != nil || version != cursorVersion || r.Close() != nil || p.offset < 0 {
		return p, invalid("this is no cursor of ours")
	}
	return p, nil
}

// search is what a call wants to see.
type search struct {
	queues []core.QueueID // by partition
	only   int            // the one partition that is looked at; -1: all
	key    []byte         // nil: any
	id     string         // message id; empty: any
	to     int64          // ms: messages before; math.MaxInt64: all
	skip   func(core.Offset) bool
	limit  int
	cut    int // how much of a value is shown; 0: all
}

// browsed is a page.
type browsed struct {
	Messages []outgoingJSON `json:"messages"`
	Next     string         `json:"next,omitempty"`
}

func browseTopic(c *call) error {
	if err := c.onlyQuery("partition", "offset", "from", "to", "key", "messageId", "limit", "cursor", "maxValueBytes"); err != nil {
		return err
	}
	t, err := c.topic(router.OpRead)
	if err != nil {
		return err
	}
	s := search{queues: t.Partitions, only: -1, to: math.MaxInt64}
	if err := c.searchArgs(&s); err != nil {
		return err
	}
	partition, err := c.number("partition", -1, 0, int64(len(t.Partitions)-1))
	if err != nil {
		return err
	}
	s.only = int(partition)
	if key := c.QueryArgs().Peek("key"); key != nil {
		s.key = append([]byte{}, key...)
		if s.only < 0 { // whoever publishes with a partition of its own says which
			s.only = core.PartitionOf(s.key, len(t.Partitions))
		}
	}
	s.id = string(c.QueryArgs().Peek("messageId"))
	at, err := c.begin(&s)
	if err != nil {
		return err
	}
	return c.browse(&s, at)
}

// searchArgs reads what all browsing has.
func (c *call) searchArgs(s *search) error {
	limit, err := c.number("limit", defaultPage, 1, maxPage)
	if err != nil {
		return err
	}
	cut, err := c.number("maxValueBytes", 0, 0, math.MaxInt32)
	if err != nil {
		return err
	}
	s.limit, s.cut = int(limit), int(cut)
	if to := c.QueryArgs().Peek("to"); to != nil {
		if s.to, err = timeOf(string(to)); err != nil {
			return invalid("to: %v", err)
		}
	}
	return nil
}

// begin is where the page starts: at the cursor, or where the first page does.
func (c *call) begin(s *search) (position, error) {
	if text := c.QueryArgs().Peek("cursor"); text != nil {
		p, err := decodePosition(string(text))
		if err == nil && len(p.ends) != len(s.queues) {
			err = invalid("the cursor is of another topic, or the topic has more partitions by now")
		}
		return p, err
	}
	p := position{ends: make([]core.Offset, len(s.queues)), offset: -1}
	if s.only > 0 {
		p.partition = s.only
	}
	for i, q := range s.queues {
		if s.only >= 0 && i != s.only {
			continue
		}
		h, err := c.router.Head(q)
		if err != nil {
			return p, err
		}
		p.ends[i] = h.Stable
	}
	offset, err := c.number("offset", -1, 0, math.MaxInt64)
	if err != nil {
		return p, err
	}
	if offset >= 0 && s.only < 0 && len(s.queues) > 1 {
		return p, invalid("offset needs a partition, or a key")
	}
	p.offset = core.Offset(offset)
	return p, nil
}

// first is the first offset of interest in a partition.
func (c *call) first(q core.QueueID) (core.Offset, error) {
	h, err := c.router.Head(q)
	if err != nil {
		return 0, err
	}
	from := c.QueryArgs().Peek("from")
	if from == nil {
		return h.Start, nil
	}
	ms, err := timeOf(string(from))
	if err != nil {
		return 0, invalid("from: %v", err)
	}
	o, _, ok, err := c.router.OffsetByTime(c.ctx, q, ms)
	if !ok {
		o = h.End
	}
	return o, err
}

// browse makes a page.
func (c *call) browse(s *search, at position) error {
	page := browsed{Messages: []outgoingJSON{}}
	scan, room := browseScan, browseBytes
	for ; at.partition < len(s.queues); at.partition, at.offset = at.partition+1, -1 {
		if s.only >= 0 && at.partition != s.only {
			break
		}
		q, end := s.queues[at.partition], at.ends[at.partition]
		first, err := c.first(q)
		if err != nil {
			return err
		}
		full := false
		next, err := c.router.Browse(c.principal, q, max(at.offset, first), end, scan, func(r router.Browsed) bool {
			if full = len(page.Messages) == s.limit || room <= 0; full {
				return false
			}
			scan -= len(r.Value) + len(r.Key) + browseCost
			if !s.wants(&r) {
				return true
			}
			j := outgoing(int32(at.partition), &r.Record, s.cut)
			j.Deaths = jsonOfDeaths(r.Deaths)
			page.Messages = append(page.Messages, j)
			room -= len(r.Value) + len(r.Key)
			return true
		})
		if err != nil {
			return err
		}
		if at.offset = next; full || next < end {
			page.Next = at.encode()
			break
		}
	}
	return c.answer(200, page)
}

// browseCost is what looking at a record costs beside its bytes.
const browseCost = 32

// wants reports whether a record is one that is looked for.
func (s *search) wants(r *router.Browsed) bool {
	return (s.key == nil || bytes.Equal(s.key, r.Key)) && r.Time < s.to && (s.skip == nil || !s.skip(r.Offset)) &&
		(s.id == "" || message.Read(&r.Record).MessageID == s.id)
}
