package cluster

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"polylog/core"
	"polylog/core/commitlog"
)

func testManifest() *manifest {
	s := testSnapshot()
	s.installed, s.dead = false, 20
	return &manifest{
		cluster: testCluster, made: 1700000000000, applied: 99, snap: s,
		segments: []commitlog.Portion{{Base: 11, Next: 60, Bytes: 5000, Sum: 7}, {Base: 60, Next: 101, Bytes: 1 << 20, Sum: 8}},
		files:    []indexFile{{"000004.sst", 100, 1}, {"MANIFEST-000001", 0, 2}, {"marker.format-version.000001.024", 7, 3}},
	}
}

func TestManifest(t *testing.T) {
	want := testManifest()
	got, err := decodeManifest(want.encode())
	must(t, err)
	if d := cmp.Diff(want, got, cmp.AllowUnexported(manifest{}, snapshot{}, indexFile{})); d != "" {
		t.Fatal(d)
	}
	b := want.encode()
	for i := range b {
		b[i] ^= 1
		if _, err := decodeManifest(b); err == nil {
			t.Fatalf("byte %d changed, and nobody noticed", i)
		}
		b[i] ^= 1
		if _, err := decodeManifest(b[:i]); err == nil {
			t.Fatalf("cut at %d, and nobody noticed", i)
		}
	}
}

// A manifest whose checksum is right is not believed either.
func TestManifestRefuses(t *testing.T) {
	for name, change := range map[string]func(m *manifest){
		"path up":              func(m *manifest) { m.files[0].name = "../LOCK" },
		"parent":               func(m *manifest) { m.files[0].name = ".." },
		"absolute path":        func(m *manifest) { m.files[0].name = "/etc/passwd" },
		"backslash":            func(m *manifest) { m.files[0].name = `..\x` },
		"no name":              func(m *manifest) { m.files[0].name = "" },
		"zero byte":            func(m *manifest) { m.files[0].name = "0\x00" },
		"hidden":               func(m *manifest) { m.files[0].name = ".x" },
		"long name":            func(m *manifest) { m.files[0].name = strings.Repeat("0", 101) },
		"same name twice":      func(m *manifest) { m.files[1].name = m.files[0].name },
		"names out of order":   func(m *manifest) { slices.Reverse(m.files) },
		"negative length":      func(m *manifest) { m.files[0].bytes = -1 },
		"huge file":            func(m *manifest) { m.files[0].bytes = maxManifestFile + 1 },
		"no files":             func(m *manifest) { m.files = nil },
		"too many files":       func(m *manifest) { m.files = make([]indexFile, maxManifestFiles+1) },
		"no segments":          func(m *manifest) { m.segments = nil },
		"gap":                  func(m *manifest) { m.segments[1].Base++ },
		"empty segment":        func(m *manifest) { m.segments[0].Next = m.segments[0].Base },
		"huge segment":         func(m *manifest) { m.segments[0].Bytes = maxManifestFile + 1 },
		"ends early":           func(m *manifest) { m.segments[1].Next-- },
		"ends late":            func(m *manifest) { m.segments[1].Next++ },
		"begins late":          func(m *manifest) { m.segments[0].Base = 22 },
		"begins with entry 0":  func(m *manifest) { m.segments[0].Base = 0 },
		"index is ahead":       func(m *manifest) { m.applied = 101 },
		"index is behind":      func(m *manifest) { m.applied = 98 },
		"installed snapshot":   func(m *manifest) { m.snap.installed = true },
		"foreign":              func(m *manifest) { m.cluster = "../../x" },
		"snapshot of nothing":  func(m *manifest) { m.snap.index = 0 },
		"broken configuration": func(m *manifest) { m.snap.conf = []byte{0xff} },
	} {
		m := testManifest()
		change(m)
		if _, err := decodeManifest(m.encode()); core.KindOf(err) != core.Corrupt || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", name, err)
		}
	}
	b := testManifest().encode()
	b[4] = 2
	_, err := decodeManifest(sealed(b))
	wantKind(t, err, core.Unsupported)
	_, err = decodeManifest(sealed(append(testManifest().encode(), make([]byte, maxManifest)...)))
	wantKind(t, err, core.TooLarge)
	// Counts beyond the input allocate nothing.
	b = testManifest().encode()
	b = append(bytes.Clone(b[:bytes.Index(b, testManifest().snap.encode())+len(testManifest().snap.encode())]), 0xff, 0xff, 0xff, 0xff, 0x0f, 0, 0, 0, 0)
	_, err = decodeManifest(sealed(b))
	wantKind(t, err, core.Corrupt)
}

// sealed puts the right checksum under b.
func sealed(b []byte) []byte {
	b = bytes.Clone(b[:len(b)-4])
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

func FuzzManifest(f *testing.F) {
	f.Add(testManifest().encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < 4 {
			return
		}
		m, err := decodeManifest(sealed(b))
		if err != nil {
			return
		}
		again, err := decodeManifest(m.encode())
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(m, again, cmp.AllowUnexported(manifest{}, snapshot{}, indexFile{})); d != "" {
			t.Fatal(d)
		}
	})
}
