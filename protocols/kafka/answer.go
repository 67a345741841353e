package kafka

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Some answers are far larger than what asked for them: a name of three bytes may stand
// for megabytes. Handlers of such APIs say how much they are about to add, with grow,
// before they do; then no answer is larger than MaxAnswerBytes, and all together take no
// more than AnswerMemory until they are written.

// answerFree is what an answer may take without being counted: most stay below it.
const answerFree = 128 << 10

// elementBytes is about what an element of an answer takes, as a struct and encoded, besides its
// strings. Those count twice where the struct has a copy.
const elementBytes = 160

var errAnswerSize = errors.New("answer is too large")

// answerSize is the memory of an answer that is being built.
type answerSize struct {
	bytes int64 // so far, by what was given to grow
	held  int64 // of the server's budget
	err   error // why there will be no answer
}

// grow makes room for n bytes more of the answer, which may mean waiting for others to
// be written. When it returns false, the handler should return at once: the answer is
// given up and the connection closed.
func (c *call) grow(ctx context.Context, n int) bool {
	a := &c.answer
	limit := c.srv.opts.MaxAnswerBytes
	if a.err == nil {
		a.err = ctx.Err()
	}
	if a.err != nil {
		return false
	}
	a.bytes += int64(n)
	switch {
	case a.bytes > limit:
		a.err = fmt.Errorf("%w: %s needs more than %d bytes", errAnswerSize, kmsg.NameForKey(c.key), limit)
	case a.held == 0 && a.bytes > answerFree:
		// All that it may come to need: answers that grow step by step could wait for
		// each other for ever.
		if a.err = c.srv.answerBytes.Acquire(ctx, limit); a.err == nil {
			a.held = limit
		}
	}
	return a.err == nil
}

// tryGrow is grow, once for the whole answer, where nothing may wait: it returns false
// when there is no memory just now, and the handler answers something small instead.
func (c *call) tryGrow(n int) bool {
	if n <= answerFree {
		return true
	}
	if int64(n) > c.srv.opts.MaxAnswerBytes || !c.srv.answerBytes.TryAcquire(int64(n)) {
		return false
	}
	c.answer.bytes, c.answer.held = int64(n), int64(n)
	return true
}

// fits reports whether the answer may still grow by n bytes.
func (c *call) fits(n int) bool {
	return c.answer.bytes+int64(n) <= c.srv.opts.MaxAnswerBytes
}

// settle gives back what was reserved beyond the answer's size, now that it is known.
// The error says why there is no answer.
func (c *call) settle() error {
	a := &c.answer
	if a.held > a.bytes {
		c.srv.answerBytes.Release(a.held - a.bytes)
		a.held = a.bytes
	}
	return a.err
}

// once tells the first use of a key from its repetitions.
type once[K comparable] map[K]struct{}

func (o once[K]) first(key K) bool {
	if _, seen := o[key]; seen {
		return false
	}
	o[key] = struct{}{}
	return true
}

// partition is a partition as a request names it.
type partition struct {
	topic string
	index int32
}
