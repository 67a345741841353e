package amqp

import "testing"

// Whatever size is asked for, there is room for it, up to what is kept, and no more than twice as much.
func TestBufferSizes(t *testing.T) {
	for _, n := range []int{0, 1, minPooled - 1, minPooled, minPooled + 1, 1 << 10, 1<<10 + 1, 5000, maxPooled - 1, maxPooled, maxPooled + 1, 16 << 20} {
		v := getBuffer(n)
		if got, want := cap(v.b), min(n, maxPooled); got < want || got > 2*max(want, minPooled) || len(v.b) != 0 {
			t.Errorf("asked for %d: length %d, capacity %d", n, len(v.b), got)
		}
		v.release()
	}
}

// What a large message left does not come back for a small one.
func TestBufferKept(t *testing.T) {
	for range 100 {
		v := getBuffer(0)
		v.b = append(v.b, make([]byte, 100_000)...)
		v.release()
		if v = getBuffer(0); cap(v.b) > 2*minPooled {
			t.Fatalf("a small buffer has a capacity of %d", cap(v.b))
		}
		v.release()
	}
	(&buffer{b: make([]byte, 0, 2*maxPooled)}).release()
	(&buffer{}).release()
	(*buffer)(nil).release()
	if v := getBuffer(maxPooled); cap(v.b) > maxPooled {
		t.Fatalf("a buffer of %d was kept", cap(v.b))
	}
}
