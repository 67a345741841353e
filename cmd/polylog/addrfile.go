package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// endpoint is a listener that is bound.
type endpoint struct {
	name string // kafka, amqp, mqtt, mqtt-ws, http, node
	addr string // host:port
}

// writeAddrFile writes one name=host:port line per endpoint. Whoever waits for the
// file sees it whole: it is written aside and renamed.
func writeAddrFile(path string, endpoints []endpoint) error {
	var b strings.Builder
	for _, e := range endpoints {
		fmt.Fprintf(&b, "%s=%s\n", e.name, e.addr)
	}
	aside, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("addr-file: %w", err)
	}
	_, err = aside.WriteString(b.String())
	if e := aside.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Chmod(aside.Name(), 0o644) //nolint:gosec // addresses are no secret
	}
	if err == nil {
		err = os.Rename(aside.Name(), path)
	}
	if err != nil {
		_ = os.Remove(aside.Name())
		return fmt.Errorf("addr-file: %w", err)
	}
	return nil
}
