package main

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"strings"

	httpd "polylog/protocols/http"
	"polylog/protocols/http/console"
)

// console is the page for browsers; nil where there is none.
func (b *broker) console(ln net.Listener) (*console.Console, error) {
	if b.config.Console == "off" {
		return nil, nil
	}
	o := console.Options{Clock: b.now}
	if tcp, ok := ln.Addr().(*net.TCPAddr); ok {
		o.Loopback = tcp.IP.IsLoopback()
	}
	if name := b.config.ConsoleTokenFile; name != "" {
		token, err := readToken(name)
		if err != nil {
			return nil, fmt.Errorf("console-token-file: %w", err)
		}
		o.Token = token
	}
	c, err := console.New(o)
	if err != nil {
		return nil, fmt.Errorf("console-token-file: %w", err)
	}
	return c, nil
}

// readToken is the first line of a file.
func readToken(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close() //nolint:errcheck // it was only read
	line := bufio.NewScanner(f)
	line.Scan()
	token := strings.TrimSpace(line.Text())
	if err := line.Err(); err != nil {
		return "", err
	}
	if token == "" {
		return "", fmt.Errorf("%s: its first line is empty, want a token of %d bytes or more", name, console.MinToken)
	}
	return token, nil
}

// coordinator knows the members of Kafka's groups; nil where there is no Kafka listener.
func (b *broker) coordinator() httpd.Coordinator {
	if b.kafka == nil {
		return nil
	}
	return b.kafka
}
