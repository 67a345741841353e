package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// What `export` writes and `import` reads: a message a line, in JSON, as the HTTP interface takes it (docs/http.md), with
// its place in the topic that it was in. A file whose name ends in .gz or .zst is compressed, in frames that each
// end with a line, so that an export goes on behind the last whole one.

// exportVersion is of the checkpoints.
const exportVersion = 1

// compression says how a file is compressed, by its name.
func compression(name string) string {
	switch {
	case strings.HasSuffix(name, ".gz"):
		return "gzip"
	case strings.HasSuffix(name, ".zst"):
		return "zstd"
	}
	return ""
}

// frame is lines as a file has them: compressed, on their own.
func frame(codec string, lines []byte) ([]byte, error) {
	var b bytes.Buffer
	switch codec {
	case "":
		return lines, nil
	case "gzip":
		z := gzip.NewWriter(&b)
		_, err := z.Write(lines)
		err = errors.Join(err, z.Close())
		return b.Bytes(), err
	}
	z, err := zstd.NewWriter(&b, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	_, err = z.Write(lines)
	err = errors.Join(err, z.Close())
	return b.Bytes(), err
}

// expand reads what frame wrote, or plain lines.
func expand(codec string, r io.Reader) (io.ReadCloser, error) {
	switch codec {
	case "gzip":
		return gzip.NewReader(r)
	case "zstd":
		z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(256<<20))
		if err != nil {
			return nil, err
		}
		return z.IOReadCloser(), nil
	}
	return io.NopCloser(r), nil
}

// checkpoint is how far a transfer is, in a file beside the one that is written or read.
type checkpoint struct {
	Version int    `json:"version"`
	Topic   string `json:"topic"`
	Done    int64  `json:"messages"`          // that are written, or stored
	Bytes   int64  `json:"bytes"`             // of the file that holds them, compressed
	Lines   int64  `json:"lines,omitempty"`   // of an import: that were read
	Refused int64  `json:"refused,omitempty"` // of an import: that the broker did not take
	Cursor  string `json:"cursor,omitempty"`  // of an export
	Run     string `json:"run,omitempty"`     // of an import: names its requests, so that none is done twice
}

// checkpointPath is where a transfer's checkpoint is.
func checkpointPath(file, verb string) string { return file + "." + verb + "-checkpoint" }

// readCheckpoint is nil where there is none.
func readCheckpoint(path string) (*checkpoint, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil //nolint:nilnil // there is none
	}
	if err != nil {
		return nil, err
	}
	c := &checkpoint{}
	if err := json.Unmarshal(b, c); err != nil || c.Version != exportVersion || c.Done < 0 || c.Bytes < 0 || c.Lines < 0 {
		return nil, fmt.Errorf("%s is no checkpoint of this version: delete it to begin anew", path)
	}
	return c, nil
}

// write keeps a checkpoint: the old one or the new one is there, whatever happens.
func (c *checkpoint) write(path string) error {
	b, err := json.Marshal(c)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	_, err = f.Write(append(b, '\n'))
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // it is nobody's
	}
	return err
}
