package index

import (
	"errors"
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"polylog/core"
	"polylog/core/vfs"
)

// A saved copy is the state of the last checkpoint, whole after a power cut, and stays
// so while the store goes on.
func TestSaveTo(t *testing.T) {
	mem := vfs.NewMem()
	s := openOn(t, mem)
	defer closeStore(t, s)
	m := newModel()
	for i, st := range history {
		if err := st.apply(t, s, m, func() {}); err != nil {
			t.Fatal(err)
		}
		saved := m.clone()
		s.mustSet(t, fmt.Sprint("after ", i), "not in the copy")
		dir := fmt.Sprintf("copies/%d", i)
		at, err := s.SaveTo(dir)
		if err != nil || at != saved.applied {
			t.Fatalf("%s: saved at %d, %v; want %d", st.name, at, err, saved.applied)
		}
		err = s.Update(func(tx *Tx) error { tx.Delete([]byte(fmt.Sprint("after ", i))); return nil })
		if err != nil {
			t.Fatal(err)
		}
		cut := mem.CrashClone(vfs.CrashCloneCfg{})
		c, err := Open(Options{FS: cut, Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		saved.equalStore(t, st.name, c)
		closeStore(t, c)
	}
}

// After a checkpoint of which nobody knows whether Pebble has it, nothing is saved.
func TestSaveToAfterAFailedCheckpoint(t *testing.T) {
	disk := &badDisk{kind: errorfs.OpIsWrite, name: ".sst"}
	s := openOn(t, errorfs.Wrap(vfs.NewMem(), disk))
	s.mustSet(t, "key", "value")
	disk.on.Store(true)
	c, err := s.Freeze()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Write(); !errors.Is(err, errDisk) {
		t.Fatal(err)
	}
	if _, err := s.SaveTo("copy"); core.KindOf(err) != core.Unavailable {
		t.Fatal(err)
	}
	disk.on.Store(false)
	for err := c.Write(); err != nil; err = c.Write() { // Pebble may have tried once more
		if !errors.Is(err, errDisk) {
			t.Fatal(err)
		}
	}
	if _, err := s.SaveTo("copy"); err != nil {
		t.Fatal(err)
	}
	closeStore(t, s)
	if _, err := s.SaveTo("another"); core.KindOf(err) != core.Closed {
		t.Fatal(err)
	}
}
