package cluster

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/hashicorp/go-hclog"
)

// raftLogger passes raft's log messages to slog, one level down: what raft warns
// about (a vote refused, a peer not reached) is its daily work, and what matters to
// an operator we log ourselves.
type raftLogger struct {
	hclog.Logger // the null logger, for the methods that raft does not use
	out          *slog.Logger
}

func newRaftLogger(out *slog.Logger) hclog.Logger {
	return raftLogger{Logger: hclog.NewNullLogger(), out: out}
}

func (l raftLogger) log(level slog.Level, msg string, args []any) {
	ctx := context.Background()
	if !l.out.Enabled(ctx, level) {
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

// Error implements hclog.Logger.
func (l raftLogger) Error(msg string, args ...any) { l.log(slog.LevelWarn, msg, args) }

// With implements hclog.Logger.
func (l raftLogger) With(args ...any) hclog.Logger {
	return raftLogger{Logger: l.Logger, out: l.out.With(args...)}
}

// Named implements hclog.Logger.
func (l raftLogger) Named(string) hclog.Logger { return l }
