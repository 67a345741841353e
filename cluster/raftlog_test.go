package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
)

func TestRaftLogger(t *testing.T) {
	var b bytes.Buffer
	l := newRaftLogger(slog.New(slog.NewTextHandler(&b, nil))).Named("x").With("node", 1)
	l.Info("chatter")
	for range 5 {
		l.Error("peer away", "peer", hclog.Fmt("%03d", 7))
	}
	l.Log(hclog.Warn, "vote refused")
	got := b.String()
	if strings.Count(got, "\n") != 2 ||
		!strings.Contains(got, `level=WARN msg="raft: peer away" node=1 peer=007`) ||
		!strings.Contains(got, `level=INFO msg="raft: vote refused" node=1`) {
		t.Fatal(got)
	}
}

// What this node has closed itself is no warning: each clean stop would ring alarms.
func TestRaftLoggerAtTheEnd(t *testing.T) {
	var b bytes.Buffer
	l := newRaftLogger(slog.New(slog.NewTextHandler(&b, nil)))
	l.Error("failed to accept connection", "error", fmt.Errorf("accept: %w", net.ErrClosed))
	if b.Len() > 0 {
		t.Error(b.String())
	}
	l.Error("failed to accept connection", "error", errors.New("too many open files"))
	if !strings.Contains(b.String(), "level=WARN") {
		t.Error(b.String())
	}
}
