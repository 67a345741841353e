package commitlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"

	"polylog/core"
	"polylog/core/vfs"
)

// The file "intent" exists while a truncation or reset is under way. Numbers are
// big-endian:
//
//	 0             8      9           17       21
//	+-------------+------+-----------+---------+
//	| "plogint\0" | kind | index,    | CRC32C  |
//	|             | u8   | u64       | of 0..17|
//	+-------------+------+-----------+---------+
const (
	intentMagic = "plogint\x00"
	intentLen   = 21
)

type intentKind uint8

const (
	intentTruncate intentKind = 1 // drop the entries at index and after it
	intentReset    intentKind = 2 // drop all entries; the next one is index
)

type intent struct {
	kind  intentKind
	index core.LogIndex
}

func (in intent) encode() []byte {
	b := append(make([]byte, 0, intentLen), intentMagic...)
	b = append(b, byte(in.kind))
	b = binary.BigEndian.AppendUint64(b, uint64(in.index))
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

func parseIntent(b []byte, name string) (intent, error) {
	if len(b) != intentLen || string(b[:8]) != intentMagic ||
		crc32.Checksum(b[:17], castagnoli) != binary.BigEndian.Uint32(b[17:]) {
		return intent{}, core.E(core.Corrupt, "%s: not an intent, or damaged", name)
	}
	in := intent{kind: intentKind(b[8]), index: core.LogIndex(binary.BigEndian.Uint64(b[9:]))}
	if in.kind != intentTruncate && in.kind != intentReset {
		return intent{}, core.E(core.Unsupported, "%s: intent of kind %d, this binary knows 1 and 2", name, in.kind)
	}
	return in, nil
}

func (in intent) String() string {
	if in.kind == intentReset {
		return fmt.Sprintf("reset to entry %d", in.index)
	}
	return fmt.Sprintf("truncate from entry %d", in.index)
}

// change makes in durable and then do what it says, with the background's work ended and
// syncs held off. The caller holds trimMu and appendMu.
func (l *Log) change(in intent, do func() error) error {
	if err := l.waitSealed(); err != nil {
		return err
	}
	l.syncMu.Lock()
	defer l.syncMu.Unlock()
	l.stopFilling()
	err := l.writeIntent(in)
	if err == nil {
		err = do()
	}
	if err != nil {
		return fmt.Errorf("%v: %w", in, err)
	}
	return nil
}

// writeIntent makes in durable: from here on the change will happen.
func (l *Log) writeIntent(in intent) error {
	return vfs.WriteFile(l.fs, l.path(intentName), in.encode())
}

// readIntent is the intent that a crash left, if any.
func (l *Log) readIntent() (in intent, ok bool, err error) {
	b, err := vfs.ReadFile(l.fs, l.path(intentName))
	if errors.Is(err, os.ErrNotExist) {
		return intent{}, false, nil
	}
	if err != nil {
		return intent{}, false, fmt.Errorf("read intent: %w", err)
	}
	in, err = parseIntent(b, l.path(intentName))
	return in, err == nil, err
}

// clearIntent ends the change.
func (l *Log) clearIntent() error {
	if err := l.fs.Remove(l.path(intentName)); err != nil {
		return err
	}
	return vfs.SyncDir(l.fs, l.dir)
}
