package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"polylog/cmd/polylog/rest"
)

// importKeep is how often an import notes how far it is, beside each time that it has to (see send).
const importKeep = time.Second

// maxComplaints is how many refused messages are named.
const maxComplaints = 20

type importFlags struct {
	apiFlags
	file                         string
	keepPartitions, resume, anew bool
	in                           *bufio.Reader
	read                         *counter
	held                         []byte // a message that was read and is of the next request
	at                           checkpoint
	kept                         time.Time // when that was written last
}

func newImport(p *process) *cobra.Command {
	f := &importFlags{apiFlags: apiFlags{process: p}}
	cmd := f.verb("import TOPIC", "Publish messages from lines of JSON", cobra.ExactArgs(1), func(ctx context.Context, c *rest.Client, args []string) error {
		if err := f.run(ctx, c, args[0]); err != nil {
			return fmt.Errorf("import into topic %s: %w", args[0], err)
		}
		return nil
	})
	cmd.Long = "import publishes what polylog export wrote, or polylog sub -o json, in its order: keys, values, headers, times\n" +
		"and other properties as they were. --file NAME.gz or NAME.zst is decompressed. Interrupted, it goes on with\n" +
		"--resume where it was. Within an hour nothing is stored twice then, but for the last message, where that was alone\n" +
		"in its request, as large ones are; later what was stored in the last second may be."
	f.add(cmd)
	fs := cmd.Flags()
	fs.StringVarP(&f.file, "file", "f", "", "file to read; standard input where there is none")
	fs.BoolVar(&f.keepPartitions, "keep-partitions", false, "each message into the partition that it was in; else its key decides")
	fs.BoolVar(&f.resume, "resume", false, "go on with an import that was interrupted")
	fs.BoolVar(&f.anew, "restart", false, "begin anew though one was interrupted")
	cmd.ValidArgsFunction = first(f.names("topics"))
	return cmd
}

func (f *importFlags) run(ctx context.Context, c *rest.Client, topic string) error {
	if f.resume && (f.file == "" || f.anew) {
		return usageError{errors.New("--resume goes on with a --file, and not with --restart")}
	}
	f.at = checkpoint{Version: exportVersion, Topic: topic, Run: rand.Text()}
	total := int64(0)
	source := f.process.in
	if f.file != "" {
		file, err := os.Open(f.file)
		if err != nil {
			return err
		}
		defer file.Close() //nolint:errcheck // it is only read
		if i, err := file.Stat(); err == nil {
			total = i.Size()
		}
		if err := f.find(); err != nil {
			return err
		}
		source = file
	}
	f.read = &counter{Reader: source}
	plain, err := expand(compression(f.file), f.read)
	if err != nil {
		return fmt.Errorf("%s: %w", f.file, err)
	}
	defer plain.Close() //nolint:errcheck // it is only read
	f.in = bufio.NewReaderSize(plain, 1<<20)
	if err := f.pass(f.at.Lines); err != nil {
		return err
	}
	if err := f.keep(); err != nil { // with the name of the first request
		return err
	}
	bar := newBar(f.process, "bytes", total)
	defer bar.end()
	if err := f.publish(ctx, c, bar); err != nil {
		return f.stopped(err)
	}
	return f.finish()
}

// find reads the checkpoint of an import that was interrupted.
func (f *importFlags) find() error {
	path := checkpointPath(f.file, "import")
	old, err := readCheckpoint(path)
	switch {
	case f.anew:
		return nil
	case err != nil:
		return err
	case f.resume && old == nil:
		return fmt.Errorf("no import of %s was interrupted: there is no %s", f.file, path)
	case f.resume && old.Topic != f.at.Topic:
		return fmt.Errorf("what was interrupted was the import of %s into topic %s", f.file, old.Topic)
	case !f.resume && old != nil:
		return fmt.Errorf("an import of %s was interrupted after %d messages: --resume goes on with it, --restart begins anew", f.file, old.Done)
	case old != nil:
		f.at = *old
	}
	return nil
}

// pass passes over lines that are done.
func (f *importFlags) pass(lines int64) error {
	for i := range lines {
		if _, err := readLine(f.in); err != nil {
			return fmt.Errorf("line %d, which was there before: %w", i+1, err)
		}
	}
	return nil
}

// publish publishes all lines, request after request, each when the one before is stored. What is before a line that
// cannot be read is stored, too.
func (f *importFlags) publish(ctx context.Context, c *rest.Client, bar *bar) error {
	for {
		b, end := f.next()
		if err := f.send(ctx, c, b); err != nil {
			return err
		}
		bar.at(f.read.n)
		switch {
		case errors.Is(end, io.EOF):
			return nil
		case end != nil:
			return end
		}
	}
}

// next is the next request. The error is why none can follow it: io.EOF at the end.
func (f *importFlags) next() (*batch, error) {
	b := &batch{}
	if f.held != nil {
		b.add(f.held)
		f.held = nil
	}
	for {
		line, err := readLine(f.in)
		if errors.Is(err, io.EOF) {
			return b, io.EOF
		}
		var message []byte
		if err == nil && len(line) > 0 {
			message, err = importLine(line, f.keepPartitions)
		}
		switch {
		case err != nil:
			return b, fmt.Errorf("line %d: %w", f.at.Lines+int64(b.lines)+1, err)
		case len(line) == 0:
			b.lines++
		case !b.add(message):
			f.held = message
			return b, nil
		}
	}
}

// send publishes a batch and notes that.
func (f *importFlags) send(ctx context.Context, c *rest.Client, b *batch) error {
	if len(b.at) > 0 {
		results, err := b.publish(ctx, c, f.at.Topic, "import-"+f.at.Run+"-"+strconv.FormatInt(f.at.Lines, 10))
		if err != nil {
			return err
		}
		for i, one := range results {
			if one.Status == http.StatusOK {
				f.at.Done++
				continue
			}
			if f.at.Refused++; f.at.Refused <= maxComplaints && i < len(b.at) {
				_, _ = fmt.Fprintf(f.process.err, "polylog: line %d is refused: %s\n", f.at.Lines+b.at[i]+1, one.Detail)
			}
		}
	}
	f.at.Lines += int64(b.lines)
	if len(b.at) == 1 || time.Since(f.kept) > importKeep { // a single message has no key that it would be known by
		return f.keep()
	}
	return nil
}

// keep notes how far it is.
func (f *importFlags) keep() error {
	if f.file == "" {
		return nil
	}
	f.kept = time.Now()
	return f.at.write(checkpointPath(f.file, "import"))
}

// stopped is the error of an import that did not come to its end.
func (f *importFlags) stopped(err error) error {
	if f.file == "" {
		return fmt.Errorf("%w; %d messages are stored", err, f.at.Done)
	}
	if e := f.keep(); e != nil {
		return errors.Join(err, e)
	}
	_, _ = fmt.Fprintf(f.process.err, "polylog: %d messages are stored; go on with --resume\n", f.at.Done)
	return err
}

func (f *importFlags) finish() error {
	if f.file != "" {
		if err := os.Remove(checkpointPath(f.file, "import")); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	if err := f.say("%d messages in topic %s", f.at.Done, f.at.Topic); err != nil {
		return err
	}
	if n := f.at.Refused; n > 0 {
		return fmt.Errorf("%d of %d messages were refused", n, n+f.at.Done)
	}
	return nil
}

// counter counts what is read.
type counter struct {
	io.Reader
	n int64
}

// Read implements io.Reader.
func (c *counter) Read(b []byte) (int, error) {
	n, err := c.Reader.Read(b)
	c.n += int64(n)
	return n, err
}

// readLine is the next line without its end; the last one may have none.
func readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		piece, err := r.ReadSlice('\n')
		line = append(line, piece...)
		switch {
		case len(line) > maxLine:
			return nil, fmt.Errorf("it has more than %d bytes", maxLine)
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF) && len(line) > 0:
			err = nil
		}
		return bytes.TrimSpace(line), err
	}
}

// notTaken are fields of a message that say where it was, and not what it is.
var notTaken = []string{"id", "offset", "topic", "exchange", "deaths", "deliveryCount", "redelivered", "receipt"}

// importLine is a line as publishing takes it.
func importLine(line []byte, keepPartition bool) ([]byte, error) {
	var m map[string]json.RawMessage
	if err := json.Unmarshal(line, &m); err != nil {
		return nil, fmt.Errorf("it is no message in JSON: %w", err)
	}
	if m["valueBytes"] != nil {
		return nil, errors.New("its value was cut when it was read")
	}
	for _, name := range notTaken {
		delete(m, name)
	}
	if !keepPartition {
		delete(m, "partition")
	}
	if at, ok := m["time"]; ok { // polylog sub calls it so
		m["timestamp"] = at
		delete(m, "time")
	}
	if m["valueBase64"] != nil && string(m["value"]) == "null" {
		delete(m, "value")
	}
	return json.Marshal(m)
}
