package commitlog

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"polylog/core"
)

// listing is what a log's directory holds; indexes in order.
type listing struct {
	segments []core.LogIndex
	tables   []core.LogIndex
	spares   []string
	names    []string // of all of these
	tmp      []string // left by a crash
}

// list reads the directory. Files that are not the log's are left alone.
func (l *Log) list() (d listing, err error) {
	names, err := l.fs.List(l.dir)
	if err != nil {
		return d, fmt.Errorf("list %s: %w", l.dir, err)
	}
	slices.Sort(names)
	for _, name := range names {
		if base, ok := parseName(name, segmentExt); ok {
			d.segments = append(d.segments, base)
		} else if base, ok := parseName(name, tableExt); ok {
			d.tables = append(d.tables, base)
		} else if strings.HasPrefix(name, sparePrefix) {
			d.spares = append(d.spares, name)
		} else {
			if strings.HasSuffix(name, tmpExt) {
				d.tmp = append(d.tmp, name)
			}
			continue
		}
		d.names = append(d.names, name)
	}
	return d, nil
}

func ignoreMissing(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}
