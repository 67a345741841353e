package commitlog

import (
	"errors"
	"fmt"
	"log/slog"

	"polylog/core"
	"polylog/core/vfs"
)

// view is a Log whose files are looked at and not changed: nothing is loaded.
func view(fs vfs.FS, dir string) (l *Log, d listing, err error) {
	l = &Log{fs: fs, dir: dir, o: Options{Logger: slog.New(slog.DiscardHandler), boot: currentBoot(fs, dir)}}
	d, err = l.list()
	return l, d, err
}

// viewSegment opens a segment for reading.
func (l *Log) viewSegment(base core.LogIndex) (*segment, []byte, error) {
	path := l.path(fileName(base, segmentExt))
	f, err := l.fs.Open(path)
	if err != nil {
		return nil, nil, fmt.Errorf("open segment: %w", err)
	}
	h, page, err := readPage(f, path, base)
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return &segment{segmentHeader: h, path: path, file: f}, page, nil
}
