package main

import (
	"io"
	"log/slog"

	"polylog/cmd/polylog/config"
)

// newLogger writes log lines to w in the form and from the level that c says.
func newLogger(c *config.Config, w io.Writer) *slog.Logger {
	opts := &slog.HandlerOptions{Level: c.LogLevel, ReplaceAttr: oneLine}
	if c.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, opts))
	}
	return slog.New(slog.NewTextHandler(w, opts))
}

// oneLine logs errors by their sentence: those of Pebble would print their whole stack
// when a handler formats them.
func oneLine(_ []string, a slog.Attr) slog.Attr {
	if err, ok := a.Value.Any().(error); ok {
		a.Value = slog.StringValue(err.Error())
	}
	return a
}
