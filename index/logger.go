package index

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
)

// pebbleLogger passes what Pebble says to slog: its chatter at debug level.
type pebbleLogger struct {
	log   *slog.Logger
	fatal func(error)
}

// Infof implements pebble.Logger.
func (l pebbleLogger) Infof(format string, args ...any) {
	if l.log.Enabled(context.Background(), slog.LevelDebug) {
		l.log.Debug("pebble", "msg", fmt.Sprintf(format, args...))
	}
}

// Errorf implements pebble.Logger.
func (l pebbleLogger) Errorf(format string, args ...any) {
	l.log.Error("pebble", "msg", fmt.Sprintf(format, args...))
}

// Fatalf implements pebble.Logger. Pebble calls it when it can no longer vouch for
// what is on the disk (a failed write of its manifest) and expects it not to return.
func (l pebbleLogger) Fatalf(format string, args ...any) {
	err := fmt.Errorf("pebble: "+format, args...)
	if l.fatal != nil {
		l.fatal(err)
	}
	panic(errors.Join(errors.New("the index cannot go on"), err))
}
