package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
)

// raftLogger passes raft's log messages to slog, one level down: what raft warns
// about (a vote refused, a peer not reached) is its daily work, and what matters to
// an operator we log ourselves. A message that raft repeats, as it does for as long
// as a peer is away, is passed on once in repeatAfter.
type raftLogger struct {
	hclog.Logger // the null logger, for the methods that raft does not use
	out          *slog.Logger
	said         *said
}

type said struct {
	mu   sync.Mutex
	last map[string]time.Time // guarded by mu; by message, of which raft has few
}

const repeatAfter = 10 * time.Second

func newRaftLogger(out *slog.Logger) hclog.Logger {
	return raftLogger{Logger: hclog.NewNullLogger(), out: out, said: &said{last: map[string]time.Time{}}}
}

// again reports whether msg was passed on a short while ago.
func (s *said) again(msg string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if now.Sub(s.last[msg]) < repeatAfter {
		return true
	}
	s.last[msg] = now
	return false
}

func (l raftLogger) log(level slog.Level, msg string, args []any) {
	ctx := context.Background()
	if !l.out.Enabled(ctx, level) || level > slog.LevelDebug && l.said.again(msg) {
		return
	}
	for i, a := range args {
		if f, ok := a.(hclog.Format); ok && len(f) > 0 {
			args[i] = fmt.Sprintf(fmt.Sprint(f[0]), f[1:]...)
		}
	}
	l.out.Log(ctx, level, "raft: "+msg, args...) //nolint:sloglint // the message is raft's
}

// Log implements hclog.Logger.
func (l raftLogger) Log(level hclog.Level, msg string, args ...any) {
	switch level {
	case hclog.Error:
		l.Error(msg, args...)
	case hclog.Warn:
		l.Warn(msg, args...)
	case hclog.Info:
		l.Info(msg, args...)
	default:
	}
}

// Info implements hclog.Logger.
func (l raftLogger) Info(msg string, args ...any) { l.log(slog.LevelDebug, msg, args) }

// Warn implements hclog.Logger.
func (l raftLogger) Warn(msg string, args ...any) { l.log(slog.LevelInfo, msg, args) }

// Error implements hclog.Logger. That something is closed is no news: nobody but this node closes its
// listener and connections, which it does when it ends.
func (l raftLogger) Error(msg string, args ...any) {
	level := slog.LevelWarn
	if slices.ContainsFunc(args, isClosed) {
		level = slog.LevelDebug
	}
	l.log(level, msg, args)
}

func isClosed(arg any) bool {
	err, ok := arg.(error)
	return ok && errors.Is(err, net.ErrClosed)
}

// With implements hclog.Logger.
func (l raftLogger) With(args ...any) hclog.Logger {
	return raftLogger{Logger: l.Logger, out: l.out.With(args...), said: l.said}
}

// Named implements hclog.Logger.
func (l raftLogger) Named(string) hclog.Logger { return l }
