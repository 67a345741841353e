package main

import (
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// receiver takes what many subscribers get, by one thread that asks epoll: goroutines of their own
// would cost more than a broker does. All messages have the same length.
type receiver struct {
	qos      byte
	size     int // of a message
	idAt     int // where its packet id is
	conns    map[int32]*stream
	epoll    int
	received atomic.Int64
	stop     atomic.Bool
	done     chan error
}

// stream is a subscriber's connection.
type stream struct {
	file net.Conn // keeps the descriptor
	fd   int
	at   int // in the packet at hand
	size int // of it
	idAt int // where its packet id is
	id   uint16
	// answer is the type of the packet that it is answered with, 0 for none.
	answer byte
	acks   []byte
}

func newReceiver(conns []net.Conn, qos byte, size, idAt int) (*receiver, error) {
	r := &receiver{qos: qos, size: size, idAt: idAt, conns: map[int32]*stream{}, done: make(chan error, 1)}
	var err error
	if r.epoll, err = unix.EpollCreate1(0); err != nil {
		return nil, err
	}
	for _, c := range conns {
		raw, err := c.(*net.TCPConn).SyscallConn()
		if err != nil {
			return nil, err
		}
		if e := raw.Control(func(fd uintptr) {
			r.conns[int32(fd)] = &stream{file: c, fd: int(fd)}
			err = unix.EpollCtl(r.epoll, unix.EPOLL_CTL_ADD, int(fd), &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)})
		}); e != nil {
			return nil, e
		}
		if err != nil {
			return nil, err
		}
	}
	go func() { r.done <- r.run() }()
	return r, nil
}

func (r *receiver) run() error {
	defer func() { _ = unix.Close(r.epoll) }()
	events, buf := make([]unix.EpollEvent, 256), make([]byte, 64<<10)
	for !r.stop.Load() {
		n, err := unix.EpollWait(r.epoll, events, 100)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		for i := range events[:n] {
			s := r.conns[events[i].Fd]
			n, err := unix.Read(s.fd, buf)
			switch {
			case err == unix.EAGAIN || err == unix.EINTR:
			case err != nil:
				return err
			case n == 0:
				return fmt.Errorf("the broker has closed a subscriber's connection")
			default:
				if err := r.take(s, buf[:n]); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// take counts the messages that end in b, and answers them. Between those of QoS 2 there are PUBRELs.
func (r *receiver) take(s *stream, b []byte) error {
	messages := 0
	for len(b) > 0 {
		if s.at == 0 {
			switch {
			case b[0] == 0x30|r.qos<<1:
				s.size, s.idAt, s.answer = r.size, r.idAt, [...]byte{0, puback, pubrec}[r.qos]
			case r.qos == 2 && b[0] == pubrel<<4|2:
				s.size, s.idAt, s.answer = 4, 2, pubcomp
			default:
				return fmt.Errorf("a packet that begins with %#x", b[0])
			}
		}
		n := min(s.size-s.at, len(b))
		for k := range 2 {
			if i := s.idAt + k - s.at; s.answer != 0 && i >= 0 && i < n {
				s.id = s.id<<8 | uint16(b[i])
			}
		}
		b = b[n:]
		if s.at += n; s.at < s.size {
			break
		}
		s.at = 0
		if s.answer != pubcomp {
			messages++
		}
		if s.answer != 0 {
			s.acks = append(s.acks, s.answer<<4, 2, byte(s.id>>8), byte(s.id))
		}
	}
	r.received.Add(int64(messages))
	for len(s.acks) > 0 {
		n, err := unix.Write(s.fd, s.acks)
		if err == unix.EAGAIN || err == unix.EINTR {
			time.Sleep(100 * time.Microsecond)
			continue
		}
		if err != nil {
			return err
		}
		s.acks = s.acks[n:]
	}
	s.acks = s.acks[:0]
	return nil
}

// close ends the receiver.
func (r *receiver) close() error {
	r.stop.Store(true)
	return <-r.done
}
