package disk

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

type fixture struct {
	*testing.T
	*Disk
	dir string
}

func mount(t *testing.T) fixture {
	dir := filepath.Join(t.TempDir(), "mnt")
	d, err := Mount(t.TempDir(), dir, 1)
	if err != nil {
		t.Fatal(err)
	}
	f := fixture{t, d, dir}
	t.Cleanup(func() { f.ok(d.Unmount()) })
	return f
}

func (f fixture) ok(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

func (f fixture) open(name string) *os.File {
	f.Helper()
	file, err := os.OpenFile(filepath.Join(f.dir, name), os.O_RDWR|os.O_CREATE, 0o644)
	f.ok(err)
	return file
}

func (f fixture) write(file *os.File, text string, at int64) {
	f.Helper()
	_, err := file.WriteAt([]byte(text), at)
	f.ok(err)
}

func (f fixture) sync(name string) {
	f.Helper()
	d, err := os.Open(filepath.Join(f.dir, name))
	f.ok(err)
	f.ok(errors.Join(d.Sync(), d.Close()))
}

func (f fixture) crash(torn bool) {
	f.Helper()
	_, _, err := f.Crash(rand.New(rand.NewPCG(1, 2)), torn)
	f.ok(err)
}

// holds says what a file must hold; "-" is no file.
func (f fixture) holds(name, want string) {
	f.Helper()
	b, err := os.ReadFile(filepath.Join(f.dir, name))
	if got := string(b); errors.Is(err, os.ErrNotExist) {
		if want != "-" {
			f.Errorf("%s is not there, want %q", name, want)
		}
	} else if f.ok(err); got != want {
		f.Errorf("%s holds %q, want %q", name, got, want)
	}
}

func TestPowerCutLosesWhatWasNotFlushed(t *testing.T) {
	f := mount(t)
	file := f.open("a")
	f.write(file, "one two", 0)
	f.ok(file.Sync())
	f.sync(".")
	f.write(file, "ONE", 0)
	f.write(file, " three", 7)
	f.write(file, "One", 0)
	f.holds("a", "One two three")
	f.ok(file.Close())
	f.crash(false)
	f.holds("a", "one two")
}

func TestKilledProcessLosesNothing(t *testing.T) {
	f := mount(t)
	file := f.open("a")
	f.write(file, "one", 0)
	f.ok(file.Close())
	f.holds("a", "one")
}

func TestPowerCutTakesBackTruncation(t *testing.T) {
	f := mount(t)
	file := f.open("a")
	f.write(file, "one two", 0)
	f.ok(file.Sync())
	f.sync(".")
	f.ok(file.Truncate(3))
	f.holds("a", "one")
	f.ok(file.Truncate(5))
	f.ok(file.Close())
	f.ok(os.Truncate(filepath.Join(f.dir, "a"), 1))
	f.holds("a", "o")
	file, err := os.Create(filepath.Join(f.dir, "a"))
	f.ok(err)
	f.ok(file.Close())
	f.holds("a", "")
	f.crash(false)
	f.holds("a", "one two")
}

// A name is there after a power cut only if its directory was flushed.
func TestPowerCutTakesBackNames(t *testing.T) {
	f := mount(t)
	for _, name := range []string{"stays", "moved", "target", "removed"} {
		file := f.open(name)
		f.write(file, name, 0)
		f.ok(errors.Join(file.Sync(), file.Close()))
	}
	f.sync(".")
	fresh := f.open("fresh")
	f.write(fresh, "fresh", 0)
	f.ok(errors.Join(fresh.Sync(), fresh.Close()))
	f.ok(os.Rename(filepath.Join(f.dir, "moved"), filepath.Join(f.dir, "target")))
	f.ok(os.Remove(filepath.Join(f.dir, "removed")))
	f.ok(os.Mkdir(filepath.Join(f.dir, "sub"), 0o755))
	f.ok(os.Link(filepath.Join(f.dir, "stays"), filepath.Join(f.dir, "linked")))
	f.holds("target", "moved")
	f.crash(false)
	for name, want := range map[string]string{"stays": "stays", "moved": "moved", "target": "target", "removed": "removed", "fresh": "-", "linked": "-"} {
		f.holds(name, want)
	}
	if _, err := os.Stat(filepath.Join(f.dir, "sub")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory is there: %v", err)
	}
}

func TestFlushedNamesStay(t *testing.T) {
	f := mount(t)
	f.ok(os.Mkdir(filepath.Join(f.dir, "sub"), 0o755))
	f.sync(".")
	file := f.open("sub/tmp")
	f.write(file, "one", 0)
	f.ok(file.Sync())
	f.ok(os.Rename(filepath.Join(f.dir, "sub/tmp"), filepath.Join(f.dir, "sub/a")))
	f.write(file, "lost", 3) // written under a name that is gone
	f.ok(file.Close())
	f.sync("sub")
	f.crash(false)
	f.holds("sub/a", "one")
	f.holds("sub/tmp", "-")
	left, err := os.ReadDir(f.undo)
	f.ok(err)
	if len(left) != 0 {
		t.Errorf("%d files are kept aside for nothing", len(left))
	}
}

// A torn power cut loses whole sectors, never a part of one, and not always all of them.
func TestTornPowerCut(t *testing.T) {
	f := mount(t)
	const sectors = 64
	file := f.open("a")
	f.write(file, strings.Repeat("a", sectors*sector), 0)
	f.ok(file.Sync())
	f.sync(".")
	f.write(file, strings.Repeat("b", sectors*sector), 0)
	f.ok(file.Close())
	f.crash(true)
	b, err := os.ReadFile(filepath.Join(f.dir, "a"))
	f.ok(err)
	count := map[string]int{}
	for i := range sectors {
		count[string(b[i*sector:(i+1)*sector])]++
	}
	if len(count) != 2 || count[strings.Repeat("a", sector)] == 0 || count[strings.Repeat("b", sector)] == 0 {
		t.Errorf("%d different sectors, want old ones and new ones", len(count))
	}
}

func TestFailedFlushLosesItsBytes(t *testing.T) {
	f := mount(t)
	file := f.open("a")
	f.write(file, strings.Repeat("a", 100*sector), 0)
	f.ok(file.Sync())
	f.Set(Faults{FailSync: true})
	f.write(file, strings.Repeat("b", 100*sector), 0)
	if err := file.Sync(); !errors.Is(err, syscall.EIO) {
		t.Fatalf("fsync: %v, want EIO", err)
	}
	f.Set(Faults{})
	f.ok(file.Sync()) // the trap: the next one succeeds
	b := make([]byte, 100*sector)
	_, err := file.ReadAt(b, 0)
	f.ok(errors.Join(err, file.Close()))
	if !strings.Contains(string(b), "a") {
		t.Error("nothing was lost")
	}
}

func TestFailedRead(t *testing.T) {
	f := mount(t)
	file := f.open("a")
	f.write(file, "a", 0)
	f.Set(Faults{FailRead: true})
	if _, err := file.ReadAt(make([]byte, 1), 0); !errors.Is(err, syscall.EIO) {
		t.Fatalf("read: %v, want EIO", err)
	}
	f.Set(Faults{})
	f.ok(file.Close())
}

func TestHangEnds(t *testing.T) {
	f := mount(t)
	file := f.open("a")
	f.write(file, "a", 0)
	f.Set(Faults{Hang: true})
	done := make(chan error)
	go func() { done <- file.Sync() }()
	select {
	case err := <-done:
		t.Fatalf("a hanging flush ended: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	f.Set(Faults{})
	f.ok(<-done)
	f.ok(file.Close())
}

func TestSlowFlush(t *testing.T) {
	f := mount(t)
	file := f.open("a")
	f.write(file, "a", 0)
	f.Set(Faults{SyncDelay: 100 * time.Millisecond})
	begin := time.Now()
	f.ok(file.Sync())
	if d := time.Since(begin); d < 100*time.Millisecond {
		t.Errorf("a slow flush took %v", d)
	}
	f.ok(file.Close())
}

// What is changed below is seen at once, without a cache in between.
func TestDamageBelowIsSeen(t *testing.T) {
	f := mount(t)
	file := f.open("a")
	f.write(file, "abc", 0)
	f.holds("a", "abc")
	f.ok(os.WriteFile(f.Path("a"), []byte("aXc"), 0o644))
	f.holds("a", "aXc")
	f.ok(file.Close())
}

func TestWipe(t *testing.T) {
	f := mount(t)
	f.ok(os.Mkdir(filepath.Join(f.dir, "sub"), 0o755))
	file := f.open("sub/a")
	f.write(file, "abc", 0)
	f.ok(file.Close())
	f.ok(f.Wipe())
	f.crash(false)
	left, err := os.ReadDir(f.dir)
	f.ok(err)
	if len(left) != 0 {
		t.Errorf("%v is left", left)
	}
	f.holds("sub/a", "-")
}
