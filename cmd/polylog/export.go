package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"

	"github.com/spf13/cobra"

	"polylog/cmd/polylog/rest"
)

type exportFlags struct {
	apiFlags
	file, from, to, key string
	resume, force       bool
}

func newExport(p *process) *cobra.Command {
	f := &exportFlags{apiFlags: apiFlags{process: p}}
	cmd := f.verb("export TOPIC", "Write a topic's messages as lines of JSON", cobra.ExactArgs(1), func(ctx context.Context, c *rest.Client, args []string) error {
		if err := f.run(ctx, c, args[0]); err != nil {
			return fmt.Errorf("export topic %s: %w", args[0], err)
		}
		return nil
	})
	cmd.Long = "export writes what is in a topic when it begins, partition after partition, without consuming it: a message a\n" +
		"line, with key, value, headers, times and its place; bytes that are no text are in base64. --file NAME.gz or\n" +
		"NAME.zst compresses. Interrupted, it goes on with --resume where it was. polylog import reads it."
	f.add(cmd)
	fs := cmd.Flags()
	fs.StringVarP(&f.file, "file", "f", "", "file to write; standard output where there is none")
	fs.StringVar(&f.from, "from", "", "messages from this time on, such as 2026-01-31T12:00:00Z, or ms since 1970")
	fs.StringVar(&f.to, "to", "", "messages before this time")
	fs.StringVarP(&f.key, "key", "k", "", "messages of this key")
	fs.BoolVar(&f.resume, "resume", false, "go on with a file that was begun, with the same flags")
	fs.BoolVar(&f.force, "force", false, "write over a file that is there")
	cmd.ValidArgsFunction = first(f.names("topics"))
	return cmd
}

func (f *exportFlags) run(ctx context.Context, c *rest.Client, topic string) (err error) {
	q := url.Values{"limit": {"1000"}}
	for name, value := range map[string]string{"from": f.from, "to": f.to, "key": f.key} {
		if value != "" {
			q.Set(name, value)
		}
	}
	total, err := size(ctx, c, topic)
	if err != nil {
		return err
	}
	e := &exporter{exportFlags: f, out: f.process.out, at: checkpoint{Version: exportVersion, Topic: topic}}
	if f.file == "" && f.resume {
		return usageError{errors.New("--resume goes on with a --file")}
	}
	if f.file != "" {
		if err := e.open(); err != nil {
			return err
		}
		defer func() {
			if e := e.file.Close(); err == nil {
				err = e
			}
		}()
	}
	bar := newBar(f.process, "messages", total)
	defer bar.end()
	for {
		if e.at.Cursor != "" {
			q.Set("cursor", e.at.Cursor)
		}
		var page struct {
			Messages []json.RawMessage
			Next     string
		}
		if err := c.Get(ctx, c.Path("topics", topic, "messages"), q, &page); err != nil {
			return e.stopped(err)
		}
		if err := e.write(page.Messages, page.Next); err != nil {
			return err
		}
		bar.at(e.at.Done)
		if page.Next == "" {
			return e.finish()
		}
	}
}

// size is how many messages a topic has.
func size(ctx context.Context, c *rest.Client, topic string) (n int64, err error) {
	var t struct {
		Ranges []struct{ Start, End int64 }
	}
	err = c.Get(ctx, c.Path("topics", topic), nil, &t)
	for _, r := range t.Ranges {
		n += r.End - r.Start
	}
	return n, err
}

// exporter is one export at work.
type exporter struct {
	*exportFlags
	out  io.Writer
	file *os.File // nil: standard output
	at   checkpoint
	kept int64 // bytes at the last checkpoint
}

// checkpointEvery is how much of a file is written between two checkpoints, in bytes.
const checkpointEvery = 16 << 20

// open makes the file, or goes on behind the last page that is whole in it.
func (e *exporter) open() error {
	path := checkpointPath(e.exportFlags.file, "export")
	old, err := readCheckpoint(path)
	if err != nil {
		return err
	}
	flags := os.O_RDWR | os.O_CREATE | os.O_EXCL
	switch {
	case e.force:
		flags = os.O_RDWR | os.O_CREATE | os.O_TRUNC
	case e.resume && old != nil:
		if old.Topic != e.at.Topic {
			return fmt.Errorf("%s is an export of topic %s", e.exportFlags.file, old.Topic)
		}
		flags = os.O_RDWR
	case e.resume:
		return fmt.Errorf("%s was not begun, or is finished: there is no %s", e.exportFlags.file, path)
	}
	e.file, err = os.OpenFile(e.exportFlags.file, flags, 0o644)
	switch {
	case errors.Is(err, os.ErrExist) && old != nil:
		return fmt.Errorf("%s was begun already: --resume goes on with it, --force begins anew", e.exportFlags.file)
	case errors.Is(err, os.ErrExist):
		return fmt.Errorf("%s exists: --force writes over it", e.exportFlags.file)
	case err != nil:
		return err
	}
	e.out = e.file
	if flags == os.O_RDWR {
		e.at, e.kept = *old, old.Bytes
		err = e.goOn()
	} else {
		err = e.at.write(path)
	}
	if err != nil {
		return errors.Join(err, e.file.Close())
	}
	return nil
}

// goOn cuts off what was written behind the checkpoint.
func (e *exporter) goOn() error {
	i, err := e.file.Stat()
	if err != nil {
		return err
	}
	if i.Size() < e.at.Bytes {
		return fmt.Errorf("%s has %d bytes, %d were written: begin anew with --force", e.exportFlags.file, i.Size(), e.at.Bytes)
	}
	if err := e.file.Truncate(e.at.Bytes); err != nil {
		return err
	}
	_, err = e.file.Seek(e.at.Bytes, io.SeekStart)
	return err
}

// write writes a page.
func (e *exporter) write(page []json.RawMessage, next string) error {
	if len(page) > 0 {
		lines, err := exportLines(page)
		if err != nil {
			return err
		}
		b, err := frame(compression(e.exportFlags.file), lines)
		if err != nil {
			return err
		}
		if _, err := e.out.Write(b); err != nil {
			return err
		}
		e.at.Bytes += int64(len(b))
	}
	e.at.Done, e.at.Cursor = e.at.Done+int64(len(page)), next
	if e.file == nil || next == "" || e.at.Bytes-e.kept < checkpointEvery {
		return nil
	}
	return e.keep()
}

// keep makes what is written last, and notes it.
func (e *exporter) keep() error {
	if e.file == nil || e.at.Cursor == "" {
		return nil
	}
	if err := e.file.Sync(); err != nil { // a checkpoint of what is not there would be taken for true
		return err
	}
	e.kept = e.at.Bytes
	return e.at.write(checkpointPath(e.exportFlags.file, "export"))
}

// stopped is the error of an export that did not come to its end.
func (e *exporter) stopped(err error) error {
	if e.file == nil {
		return err
	}
	if e := e.keep(); e != nil {
		return errors.Join(err, e)
	}
	_, _ = fmt.Fprintf(e.process.err, "polylog: %d messages are in %s; go on with --resume\n", e.at.Done, e.exportFlags.file)
	return err
}

func (e *exporter) finish() error {
	if e.file == nil {
		return nil
	}
	if err := e.file.Sync(); err != nil {
		return err
	}
	if err := os.Remove(checkpointPath(e.exportFlags.file, "export")); err != nil {
		return err
	}
	return e.say("%d messages in %s, %s", e.at.Done, e.exportFlags.file, bytesText(e.at.Bytes))
}

// exportLines are messages as lines. A value that is null is said to be that, for who publishes has to say one.
func exportLines(page []json.RawMessage) ([]byte, error) {
	var b bytes.Buffer
	for _, one := range page {
		var m struct {
			Value, ValueBase64 *json.RawMessage
		}
		if err := json.Unmarshal(one, &m); err != nil {
			return nil, err
		}
		if m.Value == nil && m.ValueBase64 == nil {
			one = append(bytes.TrimSuffix(bytes.TrimSpace(one), []byte("}")), `,"value":null}`...)
		}
		b.Write(one)
		b.WriteByte('\n')
	}
	return b.Bytes(), nil
}
