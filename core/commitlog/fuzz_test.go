package commitlog

import (
	"errors"
	"slices"
	"testing"

	"polylog/core"
	"polylog/core/vfs"
)

// FuzzRecover opens a log whose only segment is the input: it is refused, or what it
// holds can be read, appended to, and read again.
func FuzzRecover(f *testing.F) {
	fs, o, _ := smallLog(f)
	for _, name := range []string{"00000000000000000001.log", "00000000000000000011.log"} {
		b := getFile(f, fs, o.Dir+"/"+name)
		f.Add(b, uint8(0), 0)
		f.Add(b, uint8(1), headerLen+10)
		f.Add(b[:len(b)-20], uint8(2), markAt+3)
	}
	f.Fuzz(func(t *testing.T, file []byte, how uint8, at int) {
		if len(file) > 1<<20 {
			return
		}
		file = slices.Clone(file)
		if at >= 0 && at < len(file) {
			file[at] ^= how
		}
		fs := vfs.NewMem()
		if err := fs.MkdirAll("log", 0o755); err != nil {
			t.Fatal(err)
		}
		o := Options{FS: fs, Dir: "log", SegmentBytes: 1 << 20, boot: bootID{how & 1}}
		name := "log/00000000000000000001.log"
		if len(file) > 23 && file[23] == 11 {
			name = "log/00000000000000000011.log"
		}
		putFile(t, fs, name, file)
		if _, err := Check(fs, "log"); err != nil {
			t.Fatalf("check: %v", err)
		}
		l, err := Open(o)
		if err != nil {
			if !errors.Is(err, core.Corrupt) && !errors.Is(err, core.Unsupported) {
				t.Fatal(err)
			}
			return
		}
		var all []Entry
		for i := l.First(); i != 0 && i <= l.Last(); i++ {
			e, err := l.Entry(i)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, e)
		}
		term := l.active.prevTerm
		if len(all) > 0 {
			term = all[len(all)-1].Term
		}
		more := makeEntries(l.Next(), 3, 50, term)
		if err := l.Append(more); err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		checkEntries(t, mustOpen(t, o), append(all, more...))
	})
}

// FuzzTable decodes a table: refused, or encoded again to the same bytes.
func FuzzTable(f *testing.F) {
	fs, o, _ := smallLog(f)
	f.Add(getFile(f, fs, o.Dir+"/00000000000000000001.tab"))
	f.Fuzz(func(t *testing.T, b []byte) {
		tab, err := parseTable(b, "t")
		if err == nil && !slices.Equal(tab.encode(), b) {
			t.Fatalf("%x became %x", b, tab.encode())
		}
	})
}

// FuzzIntent decodes an intent: refused, or encoded again to the same bytes.
func FuzzIntent(f *testing.F) {
	f.Add(intent{kind: intentTruncate, index: 12}.encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		in, err := parseIntent(b, "i")
		if err == nil && !slices.Equal(in.encode(), b) {
			t.Fatalf("%x became %x", b, in.encode())
		}
	})
}

// FuzzFrameHeader decodes a frame's header and encodes it again.
func FuzzFrameHeader(f *testing.F) {
	e := makeEntries(5, 1, 20, 3)[0]
	f.Add(appendFrameHeader(nil, seedOf(1), &e), uint64(1))
	f.Fuzz(func(t *testing.T, b []byte, base uint64) {
		if len(b) < frameHeaderLen {
			return
		}
		h, ok := parseFrameHeader(b, seedOf(core.LogIndex(base)))
		if ok && h.len() < frameHeaderLen {
			t.Fatalf("%+v has a length of %d", h, h.len())
		}
	})
}
