package cluster

import (
	"bytes"
	"testing"

	"github.com/hashicorp/raft"

	"polylog/core"
	"polylog/core/commitlog"
	"polylog/core/vfs"
)

// The log holds entries 1 to 10; 6 are applied, the snapshot is at 4.
func TestDeleteRange(t *testing.T) {
	for _, c := range []struct {
		first, last uint64
		want        core.LogIndex // the log's end afterwards; 0: panic
	}{
		{7, 10, 6},
		{10, 10, 9},
		{6, 10, 0}, // applied
		{7, 9, 0},  // not the tail
		{1, 4, 10},
		{1, 1, 10},
		{1, 5, 0}, // after the snapshot
		{2, 4, 0}, // not the head
		{1, 10, 0},
		{11, 10, 0},
	} {
		h := newHarness(t, vfs.NewMem())
		h.log(func(log *commitlog.Log) error {
			s := &logStore{
				log: log, watch: &stallWatch{},
				fail: func(err error) error { return err }, failed: func() error { return nil },
				applied:  func() core.LogIndex { return 6 },
				snapshot: func() core.LogIndex { return 4 },
				sums:     &entrySums{},
			}
			for i := uint64(1); i <= 10; i++ {
				must(t, s.StoreLog(&raft.Log{Index: i, Term: 1, Data: []byte("x")}))
			}
			func() {
				defer func() {
					if r := recover(); (r != nil) != (c.want == 0) {
						t.Errorf("delete %d to %d: panic %v", c.first, c.last, r)
					}
				}()
				must(t, s.DeleteRange(c.first, c.last))
			}()
			if c.want != 0 && (log.Last() != c.want || log.First() != 1) {
				t.Errorf("delete %d to %d leaves %d to %d", c.first, c.last, log.First(), log.Last())
			}
			return nil
		})
	}
}

func TestGetLog(t *testing.T) {
	h := newHarness(t, vfs.NewMem())
	h.log(func(log *commitlog.Log) error {
		s := &logStore{log: log, watch: &stallWatch{}, sums: &entrySums{}, fail: func(err error) error { return err }, failed: func() error { return nil }}
		must(t, s.StoreLog(&raft.Log{Index: 1, Term: 3, Type: raft.LogNoop}))
		must(t, s.StoreLog(&raft.Log{Index: 2, Term: 4, Data: []byte("data")}))
		var got raft.Log
		must(t, s.GetLog(2, &got))
		if got.Index != 2 || got.Term != 4 || got.Type != raft.LogCommand || string(got.Data) != "data" {
			t.Errorf("%+v", got)
		}
		if err := s.GetLog(3, &got); err != raft.ErrLogNotFound { //nolint:errorlint // raft compares so
			t.Errorf("entry 3: %v", err)
		}
		return nil
	})
}

// Of what is not in memory the bytes are read by who wants them: a command without them is
// neither sent nor applied nor stored.
func TestUnreadEntries(t *testing.T) {
	log, err := commitlog.Open(commitlog.Options{FS: vfs.NewMem(), Dir: "log", CacheBytes: -1})
	must(t, err)
	defer log.Close() //nolint:errcheck // a test's
	s := &logStore{log: log, watch: &stallWatch{}, sums: &entrySums{}, fail: func(err error) error { return err }, failed: func() error { return nil }}
	const entries = 10
	for i := uint64(1); i <= entries; i++ {
		must(t, s.StoreLog(&raft.Log{Index: i, Term: 2, Data: bytes.Repeat([]byte{byte(i)}, maxAppendBytes/4), Extensions: []byte("more")}))
	}
	must(t, s.StoreLog(&raft.Log{Index: entries + 1, Term: 2, Type: raft.LogNoop, Data: []byte("whole")}))
	logs := make([]*raft.Log, entries)
	for i := range logs {
		logs[i] = &raft.Log{}
		must(t, s.GetLog(uint64(i+1), logs[i]))
		if l := logs[i]; !isUnread(l) || l.Term != 2 || l.Index != uint64(i+1) || len(l.Data) != 0 {
			t.Fatalf("entry %d: %d bytes", l.Index, len(l.Data))
		}
	}
	if err := s.StoreLog(&raft.Log{Index: entries + 2, Term: 2, Extensions: logs[0].Extensions}); core.KindOf(err) != core.Internal {
		t.Errorf("stored without its bytes: %v", err)
	}
	n, size, err := fitting(logs, maxAppendBytes, s.read)
	if err != nil || n != 3 || size != 3*(maxAppendBytes/4+len("more")) || string(logs[n-1].Extensions) != "more" || !bytes.Equal(logs[n-1].Data, bytes.Repeat([]byte{3}, maxAppendBytes/4)) {
		t.Errorf("%d entries fit, %v", n, err)
	}
	if !isUnread(logs[n+1]) {
		t.Error("more was read than is sent")
	}
	var noop raft.Log
	if must(t, s.GetLog(entries+1, &noop)); string(noop.Data) != "whole" {
		t.Errorf("%+v", noop)
	}
	logs[n+1].Term = 1 // as if another leader had overruled it meanwhile
	if err := s.read(logs[n+1]); core.KindOf(err) != core.NotFound {
		t.Errorf("an overruled entry: %v", err)
	}
	if n, _, err := fitting(logs[n:], maxAppendBytes, s.read); n != 1 || err != nil {
		t.Errorf("before an entry that cannot be read %d fit, %v", n, err)
	}
	if _, _, err := fitting(logs[n+1:], maxAppendBytes, s.read); err == nil {
		t.Error("an entry that cannot be read was sent")
	}
}
