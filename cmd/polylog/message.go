package main

import (
	"time"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kgo"
)

// message is a record as --output json prints it. Bytes that are no text go, in base64,
// into a field of their own, so that nothing is lost and nothing mistaken.
type message struct {
	Topic       string    `json:"topic"`
	Partition   int32     `json:"partition"`
	Offset      int64     `json:"offset"`
	Time        time.Time `json:"time"`
	Key         *string   `json:"key"`
	KeyBase64   []byte    `json:"keyBase64,omitempty"`
	Value       *string   `json:"value"`
	ValueBase64 []byte    `json:"valueBase64,omitempty"`
	Headers     []header  `json:"headers,omitempty"` // in their order; a name may occur twice
}

type header struct {
	Name        string  `json:"name"`
	Value       *string `json:"value"`
	ValueBase64 []byte  `json:"valueBase64,omitempty"`
}

func newMessage(r *kgo.Record) message {
	m := message{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Time: r.Timestamp.UTC()}
	m.Key, m.KeyBase64 = textOrBytes(r.Key)
	m.Value, m.ValueBase64 = textOrBytes(r.Value)
	m.Headers = headersOf(r.Headers)
	return m
}

func headersOf(all []kgo.RecordHeader) (out []header) {
	for _, h := range all {
		one := header{Name: h.Key}
		one.Value, one.ValueBase64 = textOrBytes(h.Value)
		out = append(out, one)
	}
	return out
}

// textOrBytes is b in the one or the other form; nil is neither.
func textOrBytes(b []byte) (*string, []byte) {
	switch {
	case b == nil:
		return nil, nil
	case !utf8.Valid(b):
		return nil, b
	}
	s := string(b)
	return &s, nil
}
