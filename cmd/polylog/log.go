package main

import (
	"io"
	"log/slog"

	"polylog/cmd/polylog/config"
)

// newLogger writes log lines to w in the form and from the level that c says.
func newLogger(c *config.Config, w io.Writer) *slog.Logger {
	opts := &slog.HandlerOptions{Level: c.LogLevel}
	if c.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, opts))
	}
	return slog.New(slog.NewTextHandler(w, opts))
}
