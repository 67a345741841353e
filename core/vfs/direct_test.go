package vfs

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestVecWriter(t *testing.T) {
	for name, fs := range map[string]FS{"os": Default, "mem": NewMem()} {
		path := "f"
		if name == "os" {
			path = filepath.Join(t.TempDir(), path)
		}
		f, err := fs.Create(path, Category)
		if err != nil {
			t.Fatal(err)
		}
		var w VecWriter
		var bufs [][]byte
		want := []byte("front")
		for i := range 3000 { // more than one system call takes
			b := bytes.Repeat([]byte{byte(i)}, i%7)
			bufs = append(bufs, b)
			want = append(want, b...)
		}
		if _, err := f.WriteAt([]byte("front"), 0); err != nil {
			t.Fatal(err)
		}
		if err := w.WriteAt(f, bufs, 5); err != nil {
			t.Fatal(err)
		}
		if n := testing.AllocsPerRun(20, func() {
			if err := w.WriteAt(f, bufs[:8], 5); err != nil {
				t.Fatal(err)
			}
		}); n > 0 && name == "os" {
			t.Errorf("%v allocations a write", n)
		}
		got, err := ReadFile(fs, path)
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%s: %d bytes, want %d, %v", name, len(got), len(want), err)
		}
		err = Truncate(f, 7)
		if name == "mem" {
			if !errors.Is(err, ErrUnsupported) {
				t.Fatal(err)
			}
		} else if st, _ := f.Stat(); err != nil || st.Size() != 7 {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		if name == "os" {
			if err := w.WriteAt(f, bufs, 0); err == nil {
				t.Fatal("a closed file was written")
			}
		}
	}
}

func TestHook(t *testing.T) {
	var seen []Op
	var fail error
	fs := WithHook(NewMem(), func(op Op, _ string) error {
		seen = append(seen, op)
		return fail
	})
	if err := fs.MkdirAll("d", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := WriteFile(fs, "d/f", []byte("x")); err != nil {
		t.Fatal(err)
	}
	if err := fs.Remove("d/f"); err != nil {
		t.Fatal(err)
	}
	want := []Op{OpMkdir, OpCreate, OpWrite, OpSync, OpRename, OpSyncDir, OpRemove}
	if len(seen) != len(want) {
		t.Fatalf("%q, want %q", seen, want)
	}
	for i := range want {
		if seen[i] != want[i] {
			t.Fatalf("%q, want %q", seen, want)
		}
	}
	fail = os.ErrPermission
	if err := WriteFile(fs, "d/f", nil); !errors.Is(err, fail) {
		t.Fatal(err)
	}
}

// TestStartWriting begins to write files of either kind, and one that is closed: a hint
// changes nothing and cannot fail.
func TestStartWriting(t *testing.T) {
	for path, fs := range map[string]FS{filepath.Join(t.TempDir(), "f"): Default, "f": NewMem()} {
		f, err := fs.Create(path, Category)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt([]byte("data"), 0); err != nil {
			t.Fatal(err)
		}
		StartWriting(f, 0, 4)
		if err := errors.Join(f.SyncData(), f.Close()); err != nil {
			t.Fatal(err)
		}
		StartWriting(f, 0, 4)
		if got, err := ReadFile(fs, path); err != nil || string(got) != "data" {
			t.Fatalf("%q, %v", got, err)
		}
	}
}
