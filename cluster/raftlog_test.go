package cluster

import (
	"bytes"
	"log/slog"
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
