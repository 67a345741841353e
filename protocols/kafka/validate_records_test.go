package kafka

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"
)

// record encodes a record of the given fields, length first; a negative length of key or
// value is null.
func record(age, delta int64, key, value, headers int) []byte {
	field := func(b []byte, n int) []byte {
		b = binary.AppendVarint(b, int64(n))
		return append(b, bytes.Repeat([]byte("x"), max(n, 0))...)
	}
	b := []byte{0}
	b = binary.AppendVarint(b, age)
	b = binary.AppendVarint(b, delta)
	b = field(field(b, key), value)
	b = binary.AppendVarint(b, int64(headers))
	for range headers {
		b = field(field(b, 3), -1)
	}
	return append(binary.AppendVarint(nil, int64(len(b))), b...)
}

// TestPlainRecord compares the fast way through a record with the thorough one, over the
// bounds of its numbers: where it gives an answer, that is the same.
func TestPlainRecord(t *testing.T) {
	plain := 0
	lengths := []int{-1, 0, 1, 5, 63, 64, 200, 8191, 8192, 70_000}
	numbers := []int64{-8193, -8192, -65, -1, 0, 63, 64, 8191, 8192, 1 << 40}
	for _, key := range lengths {
		for _, value := range lengths {
			for _, n := range numbers {
				for headers := range 2 {
					whole := record(n, n, key, value, headers)
					want, size := sizedRecord(whole)
					if size != len(whole) || want.age != n || want.delta != n || want.hasKey != (key >= 0) {
						t.Fatalf("key %d, value %d, number %d: %+v of %d bytes, want %d", key, value, n, want, size, len(whole))
					}
					for _, after := range []int{0, 1, 100} {
						if comparePlain(t, append(slices.Clip(whole), make([]byte, after)...)) {
							plain++
						}
					}
					for at := range min(len(whole), 24) { // and with each of the first bits flipped
						for bit := range 8 {
							whole[at] ^= 1 << bit
							comparePlain(t, whole)
							whole[at] ^= 1 << bit
						}
					}
				}
			}
		}
	}
	if plain == 0 {
		t.Fatal("no record went the fast way")
	}
}

// comparePlain reports whether plainRecord knows b's first record.
func comparePlain(t *testing.T, b []byte) bool {
	t.Helper()
	r, size := plainRecord(b)
	if size == 0 {
		return false
	}
	if want, n := sizedRecord(b); n != size || r != want {
		t.Fatalf("%x: %+v of %d bytes, want %+v of %d", b[:min(len(b), 32)], r, size, want, n)
	}
	return true
}

// FuzzPlainRecord is the same comparison for any bytes.
func FuzzPlainRecord(f *testing.F) {
	f.Add(record(1, 2, -1, 100, 0))
	f.Add(record(70, 700, 5, 200, 0))
	f.Fuzz(func(t *testing.T, b []byte) { comparePlain(t, b) })
}
