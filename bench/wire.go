package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// conn speaks Kafka's frames, nothing more: the client's cost should be as near to nothing as can be,
// since it shares the machine with the broker that is measured.
type conn struct {
	net.Conn
	in  *bufio.Reader
	buf []byte
}

func dial(addr string) (*conn, error) {
	c, err := net.DialTimeout("tcp", addr, 5*time.Second)
	if err != nil {
		return nil, err
	}
	return &conn{Conn: c, in: bufio.NewReaderSize(c, 64<<10)}, nil
}

// frame encodes a request with its header; the correlation id is at bytes 8–11.
func frame(req kmsg.Request) []byte {
	b := make([]byte, 4, 4096)
	b = binary.BigEndian.AppendUint16(b, uint16(req.Key()))
	b = binary.BigEndian.AppendUint16(b, uint16(req.GetVersion()))
	b = binary.BigEndian.AppendUint32(b, 0)
	b = binary.BigEndian.AppendUint16(b, 5)
	b = append(b, "bench"...)
	if req.IsFlexible() {
		b = append(b, 0)
	}
	b = req.AppendTo(b)
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	return b
}

// next reads one response frame; what it returns is good until the next call.
func (c *conn) next() ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(c.in, head[:]); err != nil {
		return nil, err
	}
	n := int(binary.BigEndian.Uint32(head[:]))
	if n < 4 || n > 256<<20 {
		return nil, fmt.Errorf("response frame of %d bytes", n)
	}
	if cap(c.buf) < n {
		c.buf = make([]byte, n)
	}
	c.buf = c.buf[:n]
	_, err := io.ReadFull(c.in, c.buf)
	return c.buf, err
}

// body decodes a response of this request; its byte slices alias the frame.
func body(req kmsg.Request, resp kmsg.Response, frame []byte) error {
	resp.SetVersion(req.GetVersion())
	b := frame[4:]
	if resp.IsFlexible() {
		if len(b) == 0 || b[0] != 0 {
			return errors.New("response header with tags")
		}
		b = b[1:]
	}
	if u, ok := resp.(interface{ UnsafeReadFrom([]byte) error }); ok {
		return u.UnsafeReadFrom(b)
	}
	return resp.ReadFrom(b)
}

// ask sends one request and decodes its response.
func (c *conn) ask(req kmsg.Request, resp kmsg.Response) error {
	if _, err := c.Write(frame(req)); err != nil {
		return err
	}
	f, err := c.next()
	if err != nil {
		return err
	}
	return body(req, resp, f)
}

// createTopic makes a topic and waits until all its partitions take records.
func createTopic(ctx context.Context, addr, topic string, parts int32) error {
	c, err := dial(addr)
	if err != nil {
		return err
	}
	defer c.Close()
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version, req.TimeoutMillis = 5, 10_000
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = topic, parts, 1
	req.Topics = append(req.Topics, t)
	var resp kmsg.CreateTopicsResponse
	if err := c.ask(req, &resp); err != nil {
		return err
	}
	if code := resp.Topics[0].ErrorCode; code != 0 {
		return fmt.Errorf("create topic %s: code %d", topic, code)
	}
	for ctx.Err() == nil {
		var bad int16
		for p := range parts {
			if _, code, err := endOffset(c, topic, p); err != nil {
				return err
			} else if code != 0 {
				bad = code
			}
		}
		if bad == 0 {
			return nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	return ctx.Err()
}

func endOffset(c *conn, topic string, part int32) (int64, int16, error) {
	req := kmsg.NewPtrListOffsetsRequest()
	req.Version, req.ReplicaID = 5, -1
	t := kmsg.NewListOffsetsRequestTopic()
	t.Topic = topic
	p := kmsg.NewListOffsetsRequestTopicPartition()
	p.Partition, p.Timestamp, p.CurrentLeaderEpoch = part, -1, -1
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	var resp kmsg.ListOffsetsResponse
	if err := c.ask(req, &resp); err != nil {
		return 0, 0, err
	}
	r := resp.Topics[0].Partitions[0]
	return r.Offset, r.ErrorCode, nil
}
