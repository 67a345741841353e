package commitlog

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"polylog/core"
	"polylog/core/vfs"
)

// copySegment does what a replica does: it reads a portion's bytes, in pieces, into a
// file of its own.
func copySegment(t testing.TB, from *Log, p Portion, fs vfs.FS, path string) {
	t.Helper()
	b := make([]byte, p.Bytes)
	for off := int64(0); off < p.Bytes; off += 777 {
		if err := from.ReadSegment(p.Base, off, b[off:min(off+777, p.Bytes)]); err != nil {
			t.Fatal(err)
		}
	}
	putFile(t, fs, path, b)
}

// A copy of a log's portions up to any entry opens as a log up to that entry, and goes
// on to become the same segments, byte for byte.
func TestPortionsMakeTheSameLog(t *testing.T) {
	fs, o, es := smallLog(t)
	l := mustOpen(t, Options{FS: fs, Dir: o.Dir, SegmentBytes: o.SegmentBytes, CacheBytes: -1, boot: o.boot})
	for to := core.LogIndex(1); to <= 12; to++ {
		portions, err := l.Portions(to)
		if err != nil {
			t.Fatal(err)
		}
		mem := vfs.NewMem()
		if err := mem.MkdirAll("log", 0o755); err != nil {
			t.Fatal(err)
		}
		var before core.Term
		for _, p := range portions {
			name, _ := SegmentName(p.Base)
			copySegment(t, l, p, mem, "log/"+name)
			got, prev, last, err := CheckPortion(mem, "log/"+name, p)
			if err != nil || got != p || prev != before {
				t.Fatalf("%+v, after term %d, %v; want %+v after term %d", got, prev, err, p, before)
			}
			before = last
		}
		c := mustOpen(t, Options{FS: mem, Dir: "log", SegmentBytes: o.SegmentBytes, CacheBytes: -1, Durable: to})
		if c.Last() != to {
			t.Fatalf("the copy ends with %d, want %d", c.Last(), to)
		}
		if err := c.Append(es[to:]); err != nil {
			t.Fatal(err)
		}
		if err := c.waitSealed(); err != nil {
			t.Fatal(err)
		}
		checkEntries(t, c, es)
		for i, s := range c.Segments() {
			if want := l.Segments()[i]; s != want {
				t.Fatalf("up to %d: segment %+v, want %+v", to, s, want)
			}
		}
	}
	if _, err := l.Portions(13); !errors.Is(err, core.NotFound) {
		t.Fatal(err)
	}
	for _, c := range []struct {
		base core.LogIndex
		off  int64
		n    int
		kind core.Kind
	}{{2, 0, 1, core.NotFound}, {99, 0, 1, core.NotFound}, {1, -1, 1, core.OutOfRange}, {1, 1 << 40, 1, core.OutOfRange}} {
		if err := l.ReadSegment(c.base, c.off, make([]byte, c.n)); core.KindOf(err) != c.kind {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// A copy with any byte changed, cut or added does not pass for the portion.
func TestCheckPortionNotices(t *testing.T) {
	fs, o, _ := smallLog(t)
	l := mustOpen(t, o)
	p, ok := l.Sealed(6)
	if !ok {
		t.Fatal("entry 6 begins no sealed segment")
	}
	copySegment(t, l, p, fs, "copy")
	content := getFile(t, fs, "copy")
	for at := range content {
		bad := bytes.Clone(content)
		bad[at] ^= 1 << (at % 8)
		putFile(t, fs, "copy", bad)
		if _, _, _, err := CheckPortion(fs, "copy", p); core.KindOf(err) != core.Corrupt && core.KindOf(err) != core.Unsupported {
			t.Fatalf("byte %d: %v", at, err)
		}
	}
	open := Portion{Base: 6, Next: 20}
	for _, c := range []struct {
		file []byte
		want Portion
		ok   bool
	}{
		{content, p, true},
		{content, open, true},
		{content, Portion{Base: 6, Next: 8}, false},
		{content, Portion{Base: 1, Next: 20}, false},
		{content[:len(content)-8], open, false},
		{content[:headerLen], open, false},
		{append(bytes.Clone(content), 0), p, false},
		{nil, open, false},
	} {
		putFile(t, fs, "copy", c.file)
		if _, _, _, err := CheckPortion(fs, "copy", c.want); (err == nil) != c.ok {
			t.Errorf("%d bytes for %+v: %v", len(c.file), c.want, err)
		}
	}
}

// A scrub notices every changed byte of a sealed segment and of its table; a copy from
// a replica heals the segment while it is read, and the table is written anew.
func TestScrubAndReplace(t *testing.T) {
	fs, o, es := smallLog(t)
	replica := mustOpen(t, Options{FS: clone(fs), Dir: o.Dir, SegmentBytes: o.SegmentBytes, CacheBytes: -1})
	l := mustOpen(t, o)
	name, staged := SegmentName(6)
	path := l.path(name)
	free := func(int) error { return nil }
	content := getFile(t, fs, path)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if e, err := l.Entry(7); err == nil && !equalEntries(e, es[6]) {
				t.Error("read a wrong entry")
				return
			}
		}
	})
	for at := 0; at < len(content); at += 3 {
		if at >= markAt && at < markAt+markLen {
			continue
		}
		flip(t, fs, path, at)
		d, ok := errors.AsType[*Damage](l.Scrub(6, free))
		if !ok || d.Base != 6 || !errors.Is(d, core.Corrupt) || !strings.Contains(d.Error(), name) {
			t.Fatalf("byte %d: %v", at, d)
		}
		copySegment(t, replica, d.Portion, fs, l.path(staged))
		if err := l.Replace(d.Portion, l.path(staged)); err != nil {
			t.Fatal(err)
		}
		if err := l.Scrub(6, free); err != nil {
			t.Fatalf("byte %d: after the repair: %v", at, err)
		}
	}
	close(stop)
	wg.Wait()
	table := l.path(fileName(6, tableExt))
	for at := range getFile(t, fs, table) {
		flip(t, fs, table, at)
		if err := l.Scrub(6, free); err != nil {
			t.Fatal(err)
		}
		if got := getFile(t, fs, table); !bytes.Equal(got, getFile(t, replica.fs, table)) {
			t.Fatalf("byte %d of the table was not mended", at)
		}
	}
	checkEntries(t, l, es)
	enough := errors.New("enough")
	if err := l.Scrub(6, func(int) error { return enough }); !errors.Is(err, enough) {
		t.Fatal(err)
	}
	if err := l.Scrub(11, free); !errors.Is(err, core.NotFound) { // the active one
		t.Fatal(err)
	}
	if err := l.Replace(Portion{Base: 6, Next: 9}, "nowhere"); !errors.Is(err, core.NotFound) {
		t.Fatal(err)
	}
}

// flip changes a bit in place, so that whoever has the file open sees it.
func flip(t testing.TB, fs vfs.FS, path string, at int) {
	t.Helper()
	f, err := fs.OpenReadWrite(path, vfs.Category)
	if err != nil {
		t.Fatal(err)
	}
	var b [1]byte
	if _, err := f.ReadAt(b[:], int64(at)); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 1 << (at % 8)
	if _, err := f.WriteAt(b[:], int64(at)); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		t.Fatal(err)
	}
}

// The error of Open says which segment a replica has to give, whatever is wrong with
// it; with that segment in place the log opens whole.
func TestOpenSaysWhatIsDamaged(t *testing.T) {
	const seg2, tab2 = "log/00000000000000000006.log", "log/00000000000000000006.tab"
	cut := func(n int) func([]byte) []byte { return func(b []byte) []byte { return b[:n] } }
	for _, c := range []struct {
		name  string
		seg   func([]byte) []byte // nil: the file is missing
		tab   func([]byte) []byte
		known bool
	}{
		{"cut", cut(headerLen + 10), func(b []byte) []byte { return b }, true},
		{"empty", cut(0), func(b []byte) []byte { return b }, true},
		{"header damaged", func(b []byte) []byte { b[0]++; return b }, func(b []byte) []byte { return b }, true},
		{"missing", nil, func(b []byte) []byte { return b }, true},
		{"both missing", nil, nil, false},
		{"both damaged", func(b []byte) []byte { b[headerLen+40]++; return b }, func(b []byte) []byte { b[50]++; return b }, false},
		{"header damaged, no table", cut(100), nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			fs, o, es := smallLog(t)
			replica := mustOpen(t, Options{FS: clone(fs), Dir: o.Dir, SegmentBytes: o.SegmentBytes, CacheBytes: -1})
			want, _ := replica.Sealed(6)
			for path, change := range map[string]func([]byte) []byte{seg2: c.seg, tab2: c.tab} {
				b := getFile(t, fs, path)
				if change != nil {
					putFile(t, fs, path, change(b))
				} else if err := fs.Remove(path); err != nil {
					t.Fatal(err)
				}
			}
			_, err := Open(o)
			d, ok := errors.AsType[*Damage](err)
			if !ok || !errors.Is(err, core.Corrupt) {
				t.Fatal(err)
			}
			if !c.known {
				want.Bytes, want.Sum = 0, 0
			}
			if d.Portion != want {
				t.Fatalf("%+v, want %+v", d.Portion, want)
			}
			whole, _ := replica.Sealed(d.Base)
			copySegment(t, replica, whole, fs, seg2)
			checkEntries(t, mustOpen(t, o), es)
		})
	}
}

// A replacement is there as a whole or not at all, whenever the power fails.
func TestReplaceAndPowerFailure(t *testing.T) {
	for n := 0; ; n++ {
		fs, o, es := smallLog(t)
		replica := mustOpen(t, Options{FS: clone(fs), Dir: o.Dir, SegmentBytes: o.SegmentBytes, CacheBytes: -1})
		left := 1 << 30
		hooked := o
		hooked.FS = vfs.WithHook(fs, func(vfs.Op, string) error {
			if left--; left < 0 {
				return errDead
			}
			return nil
		})
		l := mustOpen(t, hooked)
		name, staged := SegmentName(6)
		flip(t, fs, l.path(name), headerLen+50)
		p, _ := l.Sealed(6)
		copySegment(t, replica, p, fs, l.path(staged))
		left = n
		err := l.Replace(p, l.path(staged))
		left = 1 << 30
		if err != nil && !errors.Is(err, errDead) {
			t.Fatal(err)
		}
		o.FS = clone(fs)
		again := mustOpen(t, o)
		scrubbed := again.Scrub(6, func(int) error { return nil })
		if (err == nil) != (scrubbed == nil) && (n != 1 || scrubbed != nil) {
			t.Fatalf("died at change %d (%v): %v", n, err, scrubbed)
		}
		if scrubbed == nil {
			checkEntries(t, again, es)
		}
		if err == nil {
			if n < 2 {
				t.Fatal(fmt.Errorf("only %d changes", n))
			}
			return
		}
	}
}
