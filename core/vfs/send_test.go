package vfs

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestSend sends parts of files of each kind to a socket and to another writer.
func TestSend(t *testing.T) {
	data := make([]byte, 300_000)
	for i := range data {
		data[i] = byte(i * 31 >> 3)
	}
	for name, fs := range map[string]FS{"os": Default, "mem": NewMem(), "hooked": WithHook(Default, func(Op, string) error { return nil })} {
		path := "f"
		if name != "mem" {
			path = filepath.Join(t.TempDir(), path)
		}
		f, err := fs.Create(path, Category)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt(bytes.Clone(data), 0); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		if f, err = fs.Open(path); err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if n, err := Send(&b, f, 1000, 200_000); err != nil || n != 200_000 || !bytes.Equal(b.Bytes(), data[1000:201_000]) {
			t.Fatalf("%s: %d bytes, %v", name, n, err)
		}
		client, server := tcpPair(t)
		done := make(chan struct{})
		go func() {
			defer close(done)
			if n, err := Send(server, f, 7, 299_000); err != nil || n != 299_000 {
				t.Errorf("%s: %d bytes, %v", name, n, err)
			}
			if n, err := Send(server, f, 299_990, 20); !errors.Is(err, io.ErrUnexpectedEOF) || n != 10 {
				t.Errorf("%s: %d bytes behind the end, %v", name, n, err)
			}
			_ = server.Close()
		}()
		got, err := io.ReadAll(client)
		<-done
		if err != nil || !bytes.Equal(got, append(bytes.Clone(data[7:299_007]), data[299_990:]...)) {
			t.Fatalf("%s: %d bytes arrived, %v", name, len(got), err)
		}
		// Nobody reads any more: the deadline ends it.
		_, server = tcpPair(t)
		if err := server.SetWriteDeadline(time.Now().Add(20 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		for err = nil; err == nil; {
			_, err = Send(server, f, 0, 300_000)
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("%s: %v", name, err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func tcpPair(t *testing.T) (client, server *net.TCPConn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close() //nolint:errcheck // a test's
	c, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	s, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = c.Close(), s.Close() })
	return c.(*net.TCPConn), s.(*net.TCPConn)
}
