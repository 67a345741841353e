package kafka

import (
	"encoding/hex"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestApiVersionsUnknownVersion holds kop#176: a version that is too new is answered in
// version 0, and the connection stays usable.
func TestApiVersionsUnknownVersion(t *testing.T) {
	nc := dial(t, startServer(t, Options{}))
	got := roundTrip(t, nc, []byte{0, 18, 0, 99, 0, 0, 0, 7, 0, 1, 'x', 0, 0, 0})
	want := "00000007" + "0023" + "00000001" + "001200000005"
	if diff := cmp.Diff(want, hex.EncodeToString(got)); diff != "" {
		t.Fatal(diff)
	}
	got = roundTrip(t, nc, []byte{0, 18, 0, 0, 0, 0, 0, 8, 255, 255})
	if want := "000000080000"; hex.EncodeToString(got[:6]) != want {
		t.Fatalf("second response %x, want it to start with %s", got, want)
	}
}
