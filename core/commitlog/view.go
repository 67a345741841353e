package commitlog

import (
	"errors"
	"fmt"
	"log/slog"
	"os"

	"polylog/core"
	"polylog/core/vfs"
)

// view is a Log whose files are looked at and not changed: nothing is loaded.
func view(fs vfs.FS, dir string) (l *Log, d listing, err error) {
	l = &Log{fs: fs, dir: dir, o: Options{Logger: slog.New(slog.DiscardHandler), boot: currentBoot(fs, dir)}}
	d, err = l.list()
	return l, d, err
}

// Head is the index that the oldest segment in dir begins with, as its file's name says;
// 0 when there is no segment. It changes nothing.
func Head(fs vfs.FS, dir string) (core.LogIndex, error) {
	_, d, err := view(fs, dir)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil || len(d.segments) == 0 {
		return 0, err
	}
	return d.segments[0], nil
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
	return &segment{segmentHeader: h, path: path, file: share(f)}, page, nil
}
