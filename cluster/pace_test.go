package cluster

import (
	"testing"
	"time"
)

// A follower whose answers take long gets smaller calls, and large ones again when it has become quick.
func TestPace(t *testing.T) {
	const lease, slow, quick = time.Second, 600 * time.Millisecond, 10 * time.Millisecond
	p := newPace()
	for i, c := range []struct {
		bytes int
		d     time.Duration
		want  int
	}{
		{maxAppendBytes, quick, maxAppendBytes},
		{8 * maxAppendBytes, slow, maxAppendBytes / 2}, // one entry
		{maxAppendBytes / 2, slow, maxAppendBytes / 4},
		{maxAppendBytes / 4, lease / 3, maxAppendBytes / 4},
		{100, quick, maxAppendBytes / 4}, // says little
		{200, slow, minAppendBytes},
		{200, slow, minAppendBytes},
		{minAppendBytes, quick, 2 * minAppendBytes},
		{2 * minAppendBytes, quick, 4 * minAppendBytes},
		{100 * minAppendBytes, quick, 8 * minAppendBytes},
		{8 * minAppendBytes, quick, 16 * minAppendBytes},
		{16 * minAppendBytes, quick, 32 * minAppendBytes},
		{32 * minAppendBytes, quick, maxAppendBytes},
		{maxAppendBytes, quick, maxAppendBytes},
	} {
		p.took("n2", c.bytes, c.d, lease)
		if got := p.of("n2"); got != c.want {
			t.Errorf("call %d, %d bytes in %v: the next may have %d, want %d", i, c.bytes, c.d, got, c.want)
		}
	}
	if got := p.of("n3"); got != maxAppendBytes {
		t.Errorf("another node: %d", got)
	}
}
