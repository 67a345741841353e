package main

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
)

func TestExplain(t *testing.T) {
	for want, err := range map[string]error{
		"the disk that holds /d is full": fmt.Errorf("write x: %w", syscall.ENOSPC),
		"is full; make room":             errors.New("pebble: MANIFEST flush failed: " + syscall.ENOSPC.Error()),
		"must be able to write in /d":    fmt.Errorf("open x: %w", syscall.EROFS),
		"able to write":                  fmt.Errorf("open x: %w", syscall.EACCES),
		"another process listens there":  fmt.Errorf("listen tcp: %w", syscall.EADDRINUSE),
		"something else":                 errors.New("something else"),
	} {
		got := explain("/d", err)
		if !errors.Is(got, err) || !strings.Contains(got.Error(), want) {
			t.Errorf("%v: %v", err, got)
		}
	}
	if explain("/d", nil) != nil {
		t.Error("an error out of nothing")
	}
}
