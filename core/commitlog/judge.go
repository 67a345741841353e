package commitlog

import (
	"encoding/hex"
	"fmt"
	"os"
	"strings"

	"polylog/core"
	"polylog/core/vfs"
)

// Recovery reads the active segment from the front. Where the first bad frame is,
// either the log ends, or a crash left something half written (a torn tail, which is
// cut off), or data that was on the disk is damaged (an error: cutting would lose
// acknowledged entries). What tells them apart:
//
//   - The mark in the segment's header. Everything before its offset was synced
//     before the mark was written, so a bad frame there is damage.
//   - Options.Durable: the caller knows of entries that were durable.
//   - The run of the operating system. When only the process died, the system wrote
//     what it had been given, in order: a prefix survives, and a whole frame behind
//     a bad one proves damage. When the machine went down, any of the blocks that
//     were not yet synced may be missing, so whole frames of the same group may
//     well follow a lost one. So they may after a failed sync, which takes the run
//     out of the mark. Where there is no mark the former is assumed.
//
// Sealed segments were synced before their table was written; they are trusted by
// the table and not read. A segment without a table which is not the last one was
// being sealed: it is scanned by the same rules and sealed again.

// judge is nil when the bad frame at which sc stands may be what a crash left.
func (l *Log) judge(s *segment, sc *scanner, flaw string, page []byte) error {
	m, marked := parseMark(page, sc.seed)
	if marked && sc.off < int64(m.durable) {
		return l.damaged(s, sc, flaw, fmt.Sprintf("everything before offset %d was on the disk", m.durable))
	}
	if sc.next <= l.o.Durable {
		return l.damaged(s, sc, flaw, fmt.Sprintf("entry %d was durable", l.o.Durable))
	}
	if sameBoot := m.boot == l.o.boot && m.boot != (bootID{}); !marked || sameBoot {
		at, found, err := sc.validAfter()
		if err != nil {
			return err
		}
		if found {
			return l.damaged(s, sc, flaw, fmt.Sprintf("whole entries follow at offset %d", at))
		}
	}
	if flaw != flawZeros && flaw != flawEnd {
		l.o.Logger.Info("the log ends before bytes of no whole entry: a torn write, or an earlier use of the file",
			"file", s.path, "offset", sc.off, "index", sc.next, "found", flaw)
	}
	return nil
}

func (l *Log) damaged(s *segment, sc *scanner, flaw, why string) error {
	return core.E(core.Corrupt, "%s: offset %d: entry %d expected, found: %s; %s, so this is damage and not a torn write", s.path, sc.off, sc.next, flaw, why)
}

// laterNotSynced is nil when nothing of the segment at base was ever synced, as is
// the case while the segment before it still waits for its own sync.
func (l *Log) laterNotSynced(s *segment, base core.LogIndex) error {
	next, page, err := l.openSegment(base)
	if err != nil {
		return err
	}
	if err := next.file.Close(); err != nil {
		return err
	}
	if m, ok := parseMark(page, seedOf(base)); ok && m.durable == headerLen {
		return nil
	}
	return core.E(core.Corrupt, "%s: entries are missing at its end, but %s, which was synced after it, is there", s.path, next.path)
}

// currentBoot names this run of the operating system, when dir is on one of its file
// systems: what the process wrote before it died is then still there.
func currentBoot(fs vfs.FS, dir string) (id bootID) {
	d, err := fs.OpenDir(dir)
	if err != nil {
		return id
	}
	defer d.Close() //nolint:errcheck // only looked at
	if !vfs.IsOS(d) {
		return id
	}
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return id
	}
	digits := strings.ReplaceAll(strings.TrimSpace(string(b)), "-", "")
	if n, err := hex.Decode(id[:], []byte(digits)); err != nil || n != len(id) {
		return bootID{}
	}
	return id
}
