package kafkarest

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"polylog/core"
)

// coordinator is a client of whoever coordinates Kafka's groups now. It connects when it is asked
// something, and again after an error.
type coordinator struct {
	dial     func() (net.Conn, error)
	clientID string

	mu          sync.Mutex // guards what follows; held while a question is open
	nc          net.Conn   // nil: not connected
	correlation int32
}

// maxAnswer bounds an answer, in bytes.
const maxAnswer = 16 << 20

// ask sends a request and waits for its answer, until ctx ends. After an error the request may
// have been done.
func ask[R kmsg.Response](ctx context.Context, k *coordinator, req kmsg.Request) (answer R, err error) {
	resp, err := k.ask(ctx, req)
	if err != nil {
		return answer, err
	}
	return resp.(R), nil //nolint:forcetypeassert // kmsg gives a request's own kind
}

func (k *coordinator) ask(ctx context.Context, req kmsg.Request) (kmsg.Response, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if k.nc == nil {
		nc, err := k.dial()
		if err != nil {
			return nil, err
		}
		k.nc = nc
	}
	nc := k.nc
	stop := context.AfterFunc(ctx, func() { _ = nc.SetDeadline(time.Unix(1, 0)) })
	resp, err := k.exchange(req)
	if !stop() || err != nil {
		_ = nc.Close()
		k.nc = nil
	}
	if err != nil {
		return nil, core.E(core.Unavailable, "the coordinator of Kafka's groups: %v", err)
	}
	return resp, nil
}

// exchange writes a request and reads the answer.
func (k *coordinator) exchange(req kmsg.Request) (kmsg.Response, error) {
	k.correlation++
	f := kmsg.NewRequestFormatter(kmsg.FormatterClientID(k.clientID))
	if _, err := k.nc.Write(f.AppendRequest(nil, req, k.correlation)); err != nil {
		return nil, err
	}
	var head [8]byte
	if _, err := io.ReadFull(k.nc, head[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(head[:4])
	if got := int32(binary.BigEndian.Uint32(head[4:])); n < 4 || n > maxAnswer || got != k.correlation {
		return nil, fmt.Errorf("answer %d of %d bytes, want answer %d", got, n, k.correlation)
	}
	body := make([]byte, n-4)
	if _, err := io.ReadFull(k.nc, body); err != nil {
		return nil, err
	}
	resp := req.ResponseKind()
	resp.SetVersion(req.GetVersion())
	return resp, resp.ReadFrom(body) // the versions that are asked have no tags in their headers
}

// close ends the connection.
func (k *coordinator) close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.nc != nil {
		_ = k.nc.Close()
		k.nc = nil
	}
}
