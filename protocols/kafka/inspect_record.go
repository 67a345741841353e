package kafka

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
)

var errRecord = errors.New("malformed record")

// binaryVarint reads a zigzag varint.
func binaryVarint(br *bufio.Reader) (int64, error) {
	b, err := br.Peek(1)
	if err != nil {
		return 0, err
	}
	if b[0] >= 0x80 {
		return binary.ReadVarint(br)
	}
	v := int64(b[0]>>1) ^ -int64(b[0]&1)
	_, _ = br.Discard(1) // most are this short
	return v, nil
}

// longRecord is splitRecord for a record of n bytes that is not to be held in memory.
func longRecord(br *bufio.Reader, n int64) (r rawRecord, err error) {
	s := recordStream{br: br, left: n}
	_, _ = s.ReadByte() // attributes
	r.age, r.delta = s.varint(), s.varint()
	key := s.varint()
	r.hasKey = key >= 0
	s.skip(key)
	s.skip(s.varint())
	for headers := s.varint(); headers != 0 && s.err == nil; headers-- {
		name := s.varint()
		if headers < 0 || name < 0 { // the key of a header is never null
			return r, s.fail(errRecord)
		}
		s.skip(name)
		s.skip(s.varint())
	}
	if s.left > 0 {
		return r, s.fail(errRecord)
	}
	return r, s.err
}

// recordStream reads the fields of one record. It remembers its first error.
type recordStream struct {
	br   *bufio.Reader
	left int64 // of the record
	err  error
}

func (s *recordStream) fail(err error) error {
	if s.err == nil {
		s.err = err
	}
	return s.err
}

// ReadByte implements io.ByteReader.
func (s *recordStream) ReadByte() (byte, error) {
	if s.err == nil && s.left <= 0 {
		s.err = io.ErrUnexpectedEOF
	}
	if s.err != nil {
		return 0, s.err
	}
	s.left--
	b, err := s.br.ReadByte()
	if err != nil {
		s.err = err
	}
	return b, err
}

func (s *recordStream) varint() int64 {
	v, err := binary.ReadVarint(s)
	if err != nil {
		_ = s.fail(err)
	}
	return v
}

// skip passes over n bytes; n is -1 for null.
func (s *recordStream) skip(n int64) {
	switch {
	case s.err != nil || n == -1:
		return
	case n < -1 || n > s.left:
		s.err = errRecord
		return
	}
	s.left -= n
	if _, err := s.br.Discard(int(n)); err != nil {
		s.err = err
	}
}
