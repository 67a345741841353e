package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// The machine's limits: what a broker that did nothing but move bytes would reach. The receiving or
// sending end is a process of its own, so that cores are shared as with a real broker.

// ceiling runs this program again as the bare server of the kind, and gives its address.
func ceiling(kind, file string) (addr string, stop func(), err error) {
	self, err := os.Executable()
	if err != nil {
		return "", nil, err
	}
	cmd := exec.Command(self, "-bare", kind, "-file", file)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", nil, err
	}
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	if _, err := fmt.Fscanln(out, &addr); err != nil {
		return "", nil, fmt.Errorf("bare server: %w", err)
	}
	return addr, func() {
		_ = cmd.Process.Kill() // it serves until it is killed
		_ = cmd.Wait()
	}, nil
}

// bareServer is the other side.
func bareServer(kind, file string) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		if kind == "send" {
			err = bareSend(c, file)
		} else {
			err = bareReceive(c, file, kind == "sync")
		}
		if err != nil {
			return err
		}
	}
}

// bareReceive writes what comes into a preallocated file, and answers each piece of batchBytes with
// its number once it is written, and flushed if that is asked for. Pieces that wait in the socket
// are flushed together, as a broker's group commit does.
func bareReceive(c net.Conn, file string, flush bool) error {
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	defer c.Close()
	buf := make([]byte, 4*batchBytes)
	var at, answered int64
	for {
		// To the end of the piece that is being read, and what has come of those after it.
		n, err := io.ReadAtLeast(c, buf, int(batchBytes-at%batchBytes))
		if n > 0 {
			if _, err := f.WriteAt(buf[:n], at); err != nil {
				return err
			}
			at += int64(n)
			if flush {
				if err := unix.Fdatasync(int(f.Fd())); err != nil {
					return err
				}
			}
			for ; answered < at/batchBytes; answered++ {
				if err := binary.Write(c, binary.BigEndian, answered); err != nil {
					return err
				}
			}
		}
		if err != nil {
			return nil // the client has sent all
		}
	}
}

// bareSend copies the file into the socket.
func bareSend(c net.Conn, file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	defer c.Close()
	_, err = io.Copy(c, f) // sendfile
	return err
}

// preallocate makes a file of zeros that needs no further allocation.
func preallocate(file string, size int64) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer f.Close()
	zeros := make([]byte, 4<<20)
	for at := int64(0); at < size; at += int64(len(zeros)) {
		if _, err := f.Write(zeros); err != nil {
			return err
		}
	}
	return f.Sync()
}

// bareIngest measures socket → preallocated file, with or without fdatasync before each answer.
func bareIngest(dir string, flush bool, total int64) (result, error) {
	file := filepath.Join(dir, "bare")
	if err := preallocate(file, total); err != nil {
		return result{}, err
	}
	defer os.Remove(file)
	kind := "receive"
	if flush {
		kind = "sync"
	}
	addr, stop, err := ceiling(kind, file)
	if err != nil {
		return result{}, err
	}
	defer stop()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return result{}, err
	}
	defer c.Close()
	pieces := int(total / batchBytes)
	window := make(chan struct{}, connections*inFlight)
	done := make(chan error, 1)
	begin := time.Now()
	go func() {
		answer := make([]byte, 8)
		for range pieces {
			if _, err := io.ReadFull(c, answer); err != nil {
				done <- err
				return
			}
			<-window
		}
		done <- nil
	}()
	piece := make([]byte, batchBytes)
	for range pieces {
		window <- struct{}{}
		if _, err := c.Write(piece); err != nil {
			return result{}, err
		}
	}
	err = <-done
	return result{bytes: int64(pieces) * batchBytes, took: time.Since(begin)}, err
}

// bareCatchUp measures file → socket over as many connections as the catch-up has.
func bareCatchUp(dir string, total int64) (result, error) {
	file := filepath.Join(dir, "bare")
	if err := preallocate(file, total); err != nil {
		return result{}, err
	}
	defer os.Remove(file)
	addr, stop, err := ceiling("send", file)
	if err != nil {
		return result{}, err
	}
	defer stop()
	begin := time.Now()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return result{}, err
	}
	defer c.Close()
	buf := make([]byte, 1<<20)
	var n int64
	for {
		k, err := c.Read(buf)
		n += int64(k)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return result{}, err
		}
	}
	return result{bytes: n, took: time.Since(begin)}, nil
}

// fdatasyncLatency writes 4 KiB after 4 KiB into a preallocated file, each flushed.
func fdatasyncLatency(dir string, n int) (p50, p99 time.Duration, err error) {
	file := filepath.Join(dir, "bare")
	if err := preallocate(file, int64(n)*4096); err != nil {
		return 0, 0, err
	}
	defer os.Remove(file)
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		return 0, 0, err
	}
	defer f.Close()
	took := make([]time.Duration, 0, n)
	block := make([]byte, 4096)
	for i := range n {
		begin := time.Now()
		if _, err := f.WriteAt(block, int64(i)*4096); err != nil {
			return 0, 0, err
		}
		if err := unix.Fdatasync(int(f.Fd())); err != nil {
			return 0, 0, err
		}
		took = append(took, time.Since(begin))
	}
	slices.Sort(took)
	return took[n/2], took[n*99/100], nil
}
