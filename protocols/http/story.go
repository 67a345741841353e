package httpd

import (
	"math"
	"strconv"
	"strings"
	"time"

	"polylog/core"
	"polylog/protocols/http/front"
	"polylog/router"
)

// storyJSON is a message with what became of it, as far as the log knows.
type storyJSON struct {
	Message outgoingJSON `json:"message"`
	Stored  time.Time    `json:"stored"`
	// Readers are those who have a position on its topic, and whether they are done with it.
	Readers []readStoryJSON `json:"readers"`
	Cut     bool            `json:"cut,omitempty"` // there are more of them
}

// readStoryJSON is what a reader has done with a message.
type readStoryJSON struct {
	Name string `json:"name"`
	Kind string `json:"kind"` // group or subscription
	Done bool   `json:"done"` // committed, or settled: done, dead or passed over
}

// getMessage shows a message of a topic, by the id that publishing gave it.
func getMessage(c *call) error {
	if err := c.onlyQuery("maxValueBytes"); err != nil {
		return err
	}
	cut, err := c.number("maxValueBytes", 0, 0, math.MaxInt32)
	if err != nil {
		return err
	}
	t, err := c.topic(router.OpRead)
	if err != nil {
		return err
	}
	partition, offset, err := c.messageID(t)
	if err != nil {
		return err
	}
	q := t.Partitions[partition]
	story := storyJSON{Readers: []readStoryJSON{}}
	found := false
	_, err = c.router.Browse(c.principal, q, offset, offset+1, browseScan, func(r router.Browsed) bool {
		found = r.Offset == offset
		story.Message, story.Stored = outgoing(int32(partition), &r.Record, int(cut)), front.Time(r.Time)
		return false
	})
	if err != nil {
		return err
	}
	if !found {
		return core.E(core.NotFound, "there is no message %s in topic %s, or not any more", c.params.Get("message"), t.Name)
	}
	readers, next, err := c.groupReaders(t, "", maxPage)
	if err != nil {
		return err
	}
	story.Cut = next != ""
	for _, r := range readers {
		story.Readers = append(story.Readers, readStoryJSON{r.Name, r.Kind, r.Positions[partition] > offset})
	}
	subs, err := c.router.Subscriptions(t.Name.Namespace, "", readersScan)
	if err != nil {
		return err
	}
	story.Cut = story.Cut || len(subs) == readersScan
	for _, s := range subs {
		if s.Topic != t.ID {
			continue
		}
		settled, err := c.router.Settled(c.principal, q, s.Group)
		if core.KindOf(err) == core.NotFound {
			continue // deleted just now
		}
		if err != nil {
			return err
		}
		story.Readers = append(story.Readers, readStoryJSON{s.Name.Name, "subscription", settled(offset)})
	}
	return c.answer(200, story)
}

// messageID is the place that the id in the path names: PARTITION-OFFSET.
func (c *call) messageID(t *router.Topic) (partition int, o core.Offset, err error) {
	first, second, _ := strings.Cut(c.params.Get("message"), "-")
	p, err1 := strconv.ParseUint(first, 10, 31)
	n, err2 := strconv.ParseInt(second, 10, 64)
	if err1 != nil || err2 != nil || n < 0 || n == math.MaxInt64 {
		return 0, 0, invalid("%.40q is no id of a message, such as 0-15", c.params.Get("message"))
	}
	if p >= uint64(len(t.Partitions)) {
		return 0, 0, core.E(core.NotFound, "topic %s has %d partitions", t.Name, len(t.Partitions))
	}
	return int(p), core.Offset(n), nil
}
