package check

import (
	"bufio"
	"fmt"
	"hash/fnv"
	"io"
	"strconv"
	"strings"
)

// Replica is one node's log, entry by entry.
type Replica struct {
	Name    string
	First   uint64   // index of the first entry; older ones were trimmed
	Entries []uint64 // a hash of what each is: term, type, lengths and checksum
}

// Last is the index of the last entry.
func (r Replica) Last() uint64 { return r.First + uint64(len(r.Entries)) - 1 }

// ReadDump reads what `polylog dump --headers` prints. Of an entry's line
//
//	entry 5 term=2 type=0 offset=4304 data=16 ext=0 crc=3f1f7f34
//
// all but the offset counts: where in which file an entry lies may differ between replicas.
func ReadDump(name string, dump io.Reader) (Replica, error) {
	r := Replica{Name: name}
	lines := bufio.NewScanner(dump)
	for lines.Scan() {
		f := strings.Fields(lines.Text())
		if len(f) == 0 || f[0] != "entry" {
			continue
		}
		if len(f) < 8 {
			return r, fmt.Errorf("%s: %q is not an entry", name, lines.Text())
		}
		index, err := strconv.ParseUint(f[1], 10, 64)
		if err != nil {
			return r, fmt.Errorf("%s: %w", name, err)
		}
		if len(r.Entries) == 0 {
			r.First = index
		} else if index != r.Last()+1 {
			return r, fmt.Errorf("%s: entry %d follows entry %d", name, index, r.Last())
		}
		h := fnv.New64a()
		for _, s := range f[2:] {
			if !strings.HasPrefix(s, "offset=") {
				_, _ = io.WriteString(h, s+" ") // a hash takes everything
			}
		}
		r.Entries = append(r.Entries, h.Sum64())
	}
	return r, lines.Err()
}

// Same says where logs differ that must be the same; an empty string is nowhere.
func Same(replicas []Replica) string {
	for _, r := range replicas {
		if len(r.Entries) == 0 {
			return fmt.Sprintf("%s holds no entry", r.Name)
		}
		a := replicas[0]
		if r.Last() != a.Last() {
			return fmt.Sprintf("%s ends with entry %d, %s with entry %d", a.Name, a.Last(), r.Name, r.Last())
		}
		for i := max(a.First, r.First); i <= a.Last(); i++ {
			if a.Entries[i-a.First] != r.Entries[i-r.First] {
				return fmt.Sprintf("entry %d of %s is not that of %s", i, r.Name, a.Name)
			}
		}
	}
	return ""
}
