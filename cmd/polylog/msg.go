package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"polylog/cmd/polylog/rest"
)

func newMsg(p *process) *cobra.Command {
	a := &apiFlags{process: p}
	cmd := a.group("msg", "Find messages of a topic, show one and what became of it", msgFind(a), msgGet(a), msgStory(a))
	a.completeArgs(cmd, "topics", "find", "get", "story")
	return cmd
}

func msgFind(a *apiFlags) *cobra.Command {
	key, id, from, to, partition, offset, n := "", "", "", "", -1, int64(-1), 20
	cmd := a.verb("find TOPIC", "Find messages by key, id, time or place", cobra.ExactArgs(1), nil)
	cmd.Long = "find looks at messages without consuming them: of a key (--key), with a message id (--message-id), of a time\n" +
		"(--from, --to), from a place on (--partition, --offset); all that is given has to be true."
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		q := url.Values{}
		set := func(flag, name, value string) {
			if cmd.Flags().Changed(flag) {
				q.Set(name, value)
			}
		}
		set("key", "key", key)
		set("message-id", "messageId", id)
		set("from", "from", from)
		set("to", "to", to)
		set("partition", "partition", strconv.Itoa(partition))
		set("offset", "offset", strconv.FormatInt(offset, 10))
		return a.call(cmd.Context(), func(ctx context.Context, c *rest.Client) error {
			if err := a.showMessages(ctx, c, c.Path("topics", args[0], "messages"), q, n, messageTable); err != nil {
				return fmt.Errorf("find in topic %s: %w", args[0], err)
			}
			return nil
		})
	}
	addOutput(cmd, &a.output)
	f := cmd.Flags()
	f.StringVarP(&key, "key", "k", "", "of this key, in the partition of the key unless another one is given")
	f.StringVar(&id, "message-id", "", "with this message id, as their producers gave it")
	f.StringVar(&from, "from", "", "from this time on, such as 2026-01-31T12:00:00Z, or ms since 1970")
	f.StringVar(&to, "to", "", "before this time")
	f.IntVarP(&partition, "partition", "p", -1, "of this partition")
	f.Int64Var(&offset, "offset", -1, "from this offset on; needs --partition where there are several")
	f.IntVarP(&n, "count", "n", n, "how many; 0: all")
	return cmd
}

// story is a message and what became of it.
type story struct {
	Message stored    `json:"message"`
	Stored  time.Time `json:"stored"`
	Readers []struct {
		Name string `json:"name"`
		Kind string `json:"kind"`
		Done bool   `json:"done"`
	} `json:"readers"`
	Cut bool `json:"cut"`
}

// checkID refuses what is no id before the broker is asked.
func checkID(id string) error {
	p, o, ok := strings.Cut(id, "-")
	_, err1 := strconv.ParseUint(p, 10, 31)
	_, err2 := strconv.ParseUint(o, 10, 63)
	if !ok || errors.Join(err1, err2) != nil {
		return usageError{fmt.Errorf("%q is no id: want PARTITION-OFFSET, such as 0-15", id)}
	}
	return nil
}

func (a *apiFlags) story(ctx context.Context, c *rest.Client, topic, id string) (raw json.RawMessage, err error) {
	if err := checkID(id); err != nil {
		return nil, err
	}
	if err := c.Get(ctx, c.Path("topics", topic, "messages", id), nil, &raw); err != nil {
		return nil, fmt.Errorf("message %s of topic %s: %w", id, topic, err)
	}
	return raw, nil
}

func msgGet(a *apiFlags) *cobra.Command {
	raw := false
	cmd := a.verb("get TOPIC ID", "Show one message, by its PARTITION-OFFSET", cobra.ExactArgs(2), func(ctx context.Context, c *rest.Client, args []string) error {
		text, err := a.story(ctx, c, args[0], args[1])
		if err != nil {
			return err
		}
		var s struct{ Message json.RawMessage }
		if err := json.Unmarshal(text, &s); err != nil {
			return err
		}
		if raw {
			var m stored
			if err := json.Unmarshal(s.Message, &m); err != nil {
				return err
			}
			b, err := m.bytes()
			if err == nil {
				_, err = a.process.out.Write(b)
			}
			return err
		}
		return object(a, s.Message, messageFacts)
	})
	addOutput(cmd, &a.output)
	cmd.Flags().BoolVar(&raw, "raw", false, "only the value, byte for byte")
	return cmd
}

// messageFacts shows one message whole.
func messageFacts(w io.Writer, m *stored) {
	row(w, "id", m.ID)
	row(w, "time", m.Timestamp.Format(time.RFC3339Nano))
	row(w, "key", m.keyText())
	if m.MessageID != "" {
		row(w, "message id", cell(m.MessageID, 200))
	}
	if m.ContentType != "" {
		row(w, "content type", cell(m.ContentType, 200))
	}
	for i := range m.Headers {
		row(w, "header "+cell(m.Headers[i].Name, 60), cell(m.Headers[i].text(), 200))
	}
	for _, d := range m.Deaths {
		row(w, "died", d.Time.Format(time.RFC3339)+" in queue "+d.Queue+": "+d.Reason)
	}
	row(w, "value", m.valueText(2000))
}

func msgStory(a *apiFlags) *cobra.Command {
	cmd := a.verb("story TOPIC ID", "Show which readers of the topic are done with a message", cobra.ExactArgs(2), func(ctx context.Context, c *rest.Client, args []string) error {
		raw, err := a.story(ctx, c, args[0], args[1])
		if err != nil {
			return err
		}
		return object(a, raw, func(w io.Writer, s *story) {
			row(w, "id", s.Message.ID)
			row(w, "stored", s.Stored.Format(time.RFC3339Nano))
			row(w, "value", s.Message.valueText(200))
			row(w)
			row(w, "READER\tKIND\tDONE")
			for _, r := range s.Readers {
				row(w, r.Name, r.Kind, r.Done)
			}
			if s.Cut {
				row(w, "there are more readers")
			}
		})
	})
	addOutput(cmd, &a.output)
	return cmd
}
