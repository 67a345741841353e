package commitlog

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"polylog/core"
	"polylog/core/vfs"
)

// smallLog makes a log of three segments in a memory file system, closes it, and
// returns what is in it.
func smallLog(t testing.TB) (*vfs.MemFS, Options, []Entry) {
	t.Helper()
	fs := vfs.NewMem()
	o := Options{FS: fs, Dir: "log", SegmentBytes: headerLen + 500, CacheBytes: -1, boot: bootID{1}}
	l := mustOpen(t, o)
	es := makeEntries(1, 12, 60, 3)
	for i := range es {
		if err := l.Append(es[i : i+1]); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if n := len(l.Segments()); n != 3 {
		t.Fatalf("%d segments, want 3", n)
	}
	return fs, o, es
}

func putFile(t testing.TB, fs vfs.FS, path string, data []byte) {
	t.Helper()
	// Under the race detector Pebble's memory file system scrambles what it was given.
	if err := vfs.WriteFile(fs, path, bytes.Clone(data)); err != nil {
		t.Fatal(err)
	}
}

func getFile(t testing.TB, fs vfs.FS, path string) []byte {
	t.Helper()
	b, err := vfs.ReadFile(fs, path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func clone(fs *vfs.MemFS) *vfs.MemFS { return fs.CrashClone(vfs.CrashCloneCfg{}) }

// TestFlipEveryByte flips a bit in every byte of every file: it is always noticed, or
// harmless, and nothing is ever cut off.
func TestFlipEveryByte(t *testing.T) {
	pristine, o, es := smallLog(t)
	names, err := pristine.List(o.Dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		path := o.Dir + "/" + name
		content := getFile(t, pristine, path)
		for at := 0; at < len(content); at++ {
			segment := strings.HasSuffix(name, segmentExt)
			if segment && (at == 100 || at == 600) {
				at = map[int]int{100: markAt, 600: headerLen}[at] // nothing ever looks at the zeros between
			}
			fs := clone(pristine)
			flipped := bytes.Clone(content)
			flipped[at] ^= 1 << (at % 8)
			putFile(t, fs, path, flipped)
			r, err := Check(fs, o.Dir)
			if err != nil {
				t.Fatalf("%s byte %d: check: %v", name, at, err)
			}
			noticed, err := openDamaged(fs, o, es)
			if err != nil {
				t.Fatalf("%s byte %d: %v", name, at, err)
			}
			if matters := noticed || !segment || at < 36 || at >= headerLen; matters && len(r.Damage) == 0 {
				t.Fatalf("%s byte %d: check found nothing", name, at)
			}
			if now := getFile(t, fs, path); segment && !markOnly(now, flipped) {
				t.Fatalf("%s byte %d: the file was changed", name, at)
			}
		}
	}
}

// markOnly reports whether two segments differ in nothing but their marks.
func markOnly(a, b []byte) bool {
	if len(a) != len(b) {
		return false
	}
	a, b = bytes.Clone(a), bytes.Clone(b)
	clear(a[markAt : markAt+markLen])
	clear(b[markAt : markAt+markLen])
	return bytes.Equal(a, b)
}

// openDamaged opens a log that should hold es and reads everything. noticed is true
// when opening or a read said that something is damaged; err when something is wrong
// or missing and nobody said so.
func openDamaged(fs vfs.FS, o Options, es []Entry) (noticed bool, err error) {
	o.FS = fs
	l, err := Open(o)
	if errors.Is(err, core.Corrupt) || errors.Is(err, core.Unsupported) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	defer func() { _ = l.Close() }()
	if l.First() != 1 || l.Last() != core.LogIndex(len(es)) {
		return false, fmt.Errorf("entries %d to %d, want 1 to %d", l.First(), l.Last(), len(es))
	}
	for _, want := range es {
		got, err := l.Entry(want.Index)
		switch {
		case errors.Is(err, core.Corrupt):
			noticed = true
		case err != nil:
			return noticed, err
		case !equalEntries(got, want):
			return noticed, fmt.Errorf("entry %d is wrong", want.Index)
		}
	}
	return noticed, nil
}

// TestOpenDamaged has one row for each way in which a directory can be wrong.
func TestOpenDamaged(t *testing.T) {
	const seg1, seg2, seg3 = "log/00000000000000000001.log", "log/00000000000000000006.log", "log/00000000000000000011.log"
	const tab1, tab2 = "log/00000000000000000001.tab", "log/00000000000000000006.tab"
	change := func(path string, fn func(b []byte) []byte) func(*testing.T, vfs.FS) {
		return func(t *testing.T, fs vfs.FS) { putFile(t, fs, path, fn(getFile(t, fs, path))) }
	}
	remove := func(paths ...string) func(*testing.T, vfs.FS) {
		return func(t *testing.T, fs vfs.FS) {
			for _, p := range paths {
				if err := fs.Remove(p); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	for _, c := range []struct {
		name   string
		damage func(*testing.T, vfs.FS)
		change func(*Options)
		want   string // part of the error; empty: opens whole
		kind   core.Kind
	}{
		{name: "nothing", damage: func(*testing.T, vfs.FS) {}},
		{name: "tables lost", damage: remove(tab1, tab2)},
		{name: "table damaged", damage: change(tab1, func(b []byte) []byte { b[50]++; return b })},
		{name: "table is another's", damage: func(t *testing.T, fs vfs.FS) { putFile(t, fs, tab1, getFile(t, fs, tab2)) }},
		{name: "table of the future", damage: change(tab1, func(b []byte) []byte { b[11] = 9; return b }), want: "format version 9", kind: core.Unsupported},
		{name: "middle segment lost", damage: remove(seg2), want: seg3 + ": a segment is missing", kind: core.Corrupt},
		{name: "middle segment and table lost", damage: remove(seg2, tab2), want: "a segment is missing", kind: core.Corrupt},
		{name: "last segment lost", damage: remove(seg3), want: seg2 + " is sealed, but the segment after it is missing", kind: core.Corrupt},
		{name: "all segments lost", damage: remove(seg1, seg2, seg3), want: "the log's files are missing", kind: core.Corrupt},
		{name: "foreign file", damage: func(t *testing.T, fs vfs.FS) { putFile(t, fs, seg1, make([]byte, 9000)) }, want: seg1 + ": offset 0: not a segment file", kind: core.Corrupt},
		{name: "short file", damage: change(seg3, func(b []byte) []byte { return b[:100] }), want: "shorter than a segment's header", kind: core.Corrupt},
		{name: "segment of the future", damage: change(seg2, func(b []byte) []byte { b[11] = 2; return b }), want: "format version 2", kind: core.Unsupported},
		{name: "renamed segment", damage: change(seg3, func([]byte) []byte {
			return segmentHeader{base: 8}.page(nil)
		}), want: "begins at entry 8", kind: core.Corrupt},
		{name: "sealed segment cut", damage: change(seg2, func(b []byte) []byte { return b[:len(b)-1] }), want: seg2, kind: core.Corrupt},
		{name: "active segment cut", damage: change(seg3, func(b []byte) []byte { return b[:len(b)-1] }), want: "was on the disk", kind: core.Corrupt},
		{name: "active segment empty", damage: change(seg3, func(b []byte) []byte { return b[:headerLen] }), want: "offset 4096: entry 11 expected, found: the file ends", kind: core.Corrupt},
		{name: "bad frame without a mark, whole ones behind", damage: change(seg3, func(b []byte) []byte {
			clear(b[markAt : markAt+markLen])
			b[headerLen+40]++
			return b
		}), want: "entry 11 expected, found: the entry fails its checksum; whole entries follow", kind: core.Corrupt},
		{name: "durable entry missing", damage: func(*testing.T, vfs.FS) {}, change: func(o *Options) { o.Durable = 13 }, want: "entry 13 expected, found: the file ends; entry 13 was durable", kind: core.Corrupt},
		{name: "intent damaged", damage: func(t *testing.T, fs vfs.FS) { putFile(t, fs, "log/intent", []byte("x")) }, want: "log/intent: not an intent", kind: core.Corrupt},
		{name: "temporary file", damage: func(t *testing.T, fs vfs.FS) { putFile(t, fs, "log/x.tmp", []byte("x")) }},
		{name: "somebody's file", damage: func(t *testing.T, fs vfs.FS) { putFile(t, fs, "log/README", []byte("x")) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			fs, o, es := smallLog(t)
			c.damage(t, fs)
			if c.change != nil {
				c.change(&o)
			}
			l, err := Open(o)
			if c.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = l.Close() }()
				checkEntries(t, l, es)
				return
			}
			if err == nil {
				_ = l.Close()
				t.Fatal("opened")
			}
			if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Fatalf("%v (%v), want %q", err, core.KindOf(err), c.want)
			}
		})
	}
}

// TestTornTail has one row for each way in which a crash leaves the end of the log.
// Entries 13 to 15 were written as one group and never synced.
func TestTornTail(t *testing.T) {
	flip := func(frame int) func([]byte, []uint32) []byte {
		return func(b []byte, pos []uint32) []byte { b[pos[frame]+40] ^= 1; return b }
	}
	for _, c := range []struct {
		name    string
		damage  func(b []byte, pos []uint32) []byte // pos of entries 13 to 15
		reboot  bool
		durable core.LogIndex
		last    core.LogIndex // 0: refused
	}{
		{name: "whole", damage: func(b []byte, _ []uint32) []byte { return b }, last: 15},
		{name: "cut in a header", damage: func(b []byte, pos []uint32) []byte { return b[:pos[2]+7] }, last: 14},
		{name: "cut in a body", damage: func(b []byte, pos []uint32) []byte { return b[:pos[1]+50] }, last: 13},
		{name: "garbage behind", damage: func(b []byte, _ []uint32) []byte { return append(b, "what is this, 40 bytes that are no frame"...) }, last: 15},
		{name: "zeros behind", damage: func(b []byte, _ []uint32) []byte { return append(b, make([]byte, 9000)...) }, last: 15},
		{name: "last one damaged", damage: flip(2), last: 14},
		{name: "last one damaged, known durable", damage: flip(2), durable: 15},
		{name: "first one damaged, same run of the system", damage: flip(0)},
		{name: "first one lost with the machine", damage: flip(0), reboot: true, last: 12},
		{name: "first one lost with the machine, known durable", damage: flip(0), reboot: true, durable: 13},
		{name: "earlier one damaged, machine went down", damage: func(b []byte, _ []uint32) []byte { b[headerLen+40] ^= 1; return b }, reboot: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			fs, o, es := smallLog(t)
			o.Flush = FlushOS
			o.SegmentBytes = 1 << 20
			l := mustOpen(t, o)
			es = append(es, makeEntries(13, 3, 60, 4)...)
			if err := l.Append(es[12:]); err != nil {
				t.Fatal(err)
			}
			after := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: newRand(1)})
			pos := l.active.pos[len(l.active.pos)-3:]
			path := l.active.path
			putFile(t, after, path, c.damage(getFile(t, after, path), pos))
			o.FS, o.Durable = after, c.durable
			if c.reboot {
				o.boot[0]++
			}
			torn, err := Open(o)
			if c.last == 0 {
				if !errors.Is(err, core.Corrupt) {
					t.Fatal(err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = torn.Close() }()
			if torn.Last() != c.last {
				t.Fatalf("last is %d, want %d", torn.Last(), c.last)
			}
			checkEntries(t, torn, es[:c.last])
			more := makeEntries(c.last+1, 2, 30, 9)
			if err := torn.Append(more); err != nil {
				t.Fatal(err)
			}
			if err := torn.Close(); err != nil {
				t.Fatal(err)
			}
			again := mustOpen(t, o)
			checkEntries(t, again, append(es[:c.last:c.last], more...))
			if again.Last() != c.last+2 {
				t.Fatalf("last is %d, want %d", again.Last(), c.last+2)
			}
		})
	}
}

// TestOpenMarks checks that what Open has synced counts as durable from then on.
func TestOpenMarks(t *testing.T) {
	fs, o, _ := smallLog(t)
	o.Flush, o.SegmentBytes = FlushOS, 1<<20
	l := mustOpen(t, o)
	if err := l.Append(makeEntries(13, 5, 60, 4)); err != nil {
		t.Fatal(err)
	}
	o.FS = fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: newRand(1)})
	l = mustOpen(t, o)
	after := l.fs.(*vfs.MemFS).CrashClone(vfs.CrashCloneCfg{})
	b := getFile(t, after, l.active.path)
	b[l.active.pos[len(l.active.pos)-1]+40] ^= 1
	putFile(t, after, l.active.path, b)
	o.FS = after
	o.boot[0]++
	if l, err := Open(o); !errors.Is(err, core.Corrupt) {
		t.Fatalf("%v, %v", l, err)
	}
}
