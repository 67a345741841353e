package cluster

import (
	"bytes"
	"testing"

	"polylog/core"
	"polylog/core/vfs"
)

func openTestStable(tb testing.TB, fs vfs.FS) *stableStore { return openStableAt(tb, fs, "") }

func openStableAt(tb testing.TB, fs vfs.FS, dir string) *stableStore {
	tb.Helper()
	s, err := openStable(fs, dir, true, func(err error) error { return err }, &stallWatch{})
	must(tb, err)
	return s
}

func TestStableStartsEmpty(t *testing.T) {
	s := openTestStable(t, vfs.NewMem())
	for _, key := range []string{keyTerm, keyVoteTerm} {
		if v, err := s.GetUint64([]byte(key)); v != 0 || err != nil {
			t.Fatalf("%s = %d, %v", key, v, err)
		}
	}
	if v, err := s.Get([]byte(keyVoteCandidate)); v != nil || err != nil {
		t.Fatalf("candidate %q, %v", v, err)
	}
}

// A torn write leaves the values before it; a file without a valid slot is refused.
func TestStableTornWrite(t *testing.T) {
	fs := vfs.NewMem()
	s := openTestStable(t, fs)
	for term := uint64(1); term <= 6; term++ {
		must(t, s.SetUint64([]byte(keyTerm), term))
		b, err := vfs.ReadFile(fs, stableName)
		must(t, err)
		slot := int(s.seq%2) * stableSlot
		for _, at := range []int{0, 5, stableHeader, stableHeader + 3} {
			torn := bytes.Clone(b)
			torn[slot+at] ^= 0x10
			clone := vfs.NewMem()
			must(t, vfs.WriteFile(clone, stableName, torn))
			if got := openTestStable(t, clone).term; got != term-1 {
				t.Fatalf("term %d after a torn write of %d", got, term)
			}
		}
	}
	must(t, vfs.WriteFile(fs, stableName, make([]byte, 2*stableSlot)))
	_, err := openStable(fs, "", true, func(err error) error { return err }, &stallWatch{})
	wantKind(t, err, core.Corrupt)
}

func FuzzStableSlot(f *testing.F) {
	s := stableStore{term: 7, vote: vote{term: 6, candidate: []byte("a:1")}}
	f.Add(s.encode(3))
	f.Fuzz(func(t *testing.T, b []byte) {
		slot := make([]byte, stableSlot)
		copy(slot, b)
		var s stableStore
		if s.decode(slot) && s.seq > 0 && !bytes.HasPrefix(slot, s.encode(s.seq)) {
			t.Fatalf("%x is not what is written for its values", b)
		}
	})
}
