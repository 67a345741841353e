package state

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"polylog/core"
)

// onceCommand has the command about what is published once:
//
//	once KEY [content=N] [window=MS] QUEUE…     a record for each queue
func (s *script) onceCommand() (core.Command, func(core.Result) string) {
	c := PublishOnce{Key: s.first(), Window: 1000}
	if v, ok := s.option("content"); ok {
		c.Digest[0] = byte(s.number(v))
	}
	if v, ok := s.option("window"); ok {
		c.Window = s.number(v)
	}
	for _, a := range s.d.CmdArgs[1:] {
		if len(a.Vals) == 0 {
			c.Batches = append(c.Batches, QueueBatch{s.queue(a.Key), batch(s.t, 1, 5, core.Nobody)})
		}
	}
	return c.Command(), func(r core.Result) string {
		o, err := DecodeOnce(r.Body)
		s.must(err)
		return fmt.Sprintf(" replayed=%v offsets=%s", o.Replayed, strings.Trim(fmt.Sprint(o.Offsets), "[]"))
	}
}

func FuzzOnce(f *testing.F) {
	c := PublishOnce{Key: "k", Window: 5, Batches: []QueueBatch{{1, []byte("ab")}, {2, nil}}}
	cmd := c.Command()
	f.Add(append(cmd.Head, cmd.Payload...))
	f.Add((&knownOnce{due: 5, once: Once{Offsets: []core.Offset{1, 2}}}).encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		if c, err := decodePublishOnce(b); err == nil {
			cmd := c.Command()
			again, err := decodePublishOnce(append(cmd.Head, cmd.Payload...))
			if err != nil || again.Key != c.Key || len(again.Batches) != len(c.Batches) {
				t.Errorf("%+v became %+v, %v", c, again, err)
			}
		}
		if k, err := decodeKnownOnce(b); err == nil {
			again, err := decodeKnownOnce(k.encode())
			if err != nil || !bytes.Equal(again.encode(), k.encode()) {
				t.Errorf("%+v became %+v, %v", k, again, err)
			}
		}
	})
}
