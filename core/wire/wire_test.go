package wire

import (
	"errors"
	"testing"
)

func TestRoundTrip(t *testing.T) {
	b := AppendUint64(nil, 1<<60)
	b = AppendUint32(b, 7)
	b = AppendUvarint(b, 300)
	b = AppendVarint(b, -300)
	b = AppendString(b, "héllo")
	b = AppendBytes(b, nil)
	b = AppendBool(b, true)
	b = AppendUvarint(b, 2)
	b = append(b, 'x', 'y')
	r := NewReader(b)
	if r.Uint64() != 1<<60 || r.Uint32() != 7 || r.Uvarint() != 300 || r.Varint() != -300 ||
		r.String() != "héllo" || len(r.Bytes()) != 0 || !r.Bool() || r.Count(1) != 2 || string(r.Rest()) != "xy" {
		t.Fatal("a value differs")
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestErrorsStick(t *testing.T) {
	r := NewReader(AppendUvarint(nil, 1<<40))
	if r.Bytes() != nil || !errors.Is(r.Err(), ErrShort) {
		t.Fatalf("a length past the end: %v", r.Err())
	}
	if r.Uint64() != 0 || r.String() != "" || !errors.Is(r.Close(), ErrShort) {
		t.Fatal("reads after an error must be zero")
	}
	r = NewReader([]byte{1, 2})
	r.Byte()
	if !errors.Is(r.Close(), ErrTrailing) {
		t.Fatal("trailing bytes must be noticed")
	}
}

func FuzzReader(f *testing.F) {
	f.Add([]byte{3, 'a', 'b', 'c', 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		r := NewReader(b)
		for r.Err() == nil && r.Len() > 0 {
			before := r.Len()
			switch r.Byte() % 6 {
			case 0:
				_ = r.String()
			case 1:
				if n := r.Count(2); n*2 > len(b) {
					t.Fatalf("count %d from %d bytes", n, len(b))
				}
			case 2:
				r.Uvarint()
			case 3:
				r.Varint()
			case 4:
				r.Uint32()
			default:
				r.Uint64()
			}
			if r.Err() == nil && r.Len() >= before {
				t.Fatal("no progress")
			}
		}
	})
}
