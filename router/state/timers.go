package state

import (
	"encoding/binary"

	"polylog/core"
	"polylog/core/wire"
	"polylog/index"
)

// Three time indexes. What Apply can do alone when its time comes is in one of them: the leader
// proposes a Tick, and Apply fires what is due by the entry's time. What the leader has to
// look at first, since it depends on who consumes, is in the second one: the timers of queues
// (queue_timers.go); and what it is to publish in the third (mqtt_will.go). Either way a timer stays until what it was for is done, so that the next
// leader finds what the one before left.

// timerKind is the first byte of a timer's id, and says what it does. The numbers are on disk.
type timerKind byte

// The kinds.
const (
	timerDelayed     timerKind = 'd' // a message that an exchange holds back (delayed.go)
	timerMQTTSession timerKind = 'm' // a session without a connection (mqtt_session.go)
	timerRetained    timerKind = 'r' // a retained message that expires (retained.go)
)

// fire does what a timer is for, and says to how many places it has led.
func (s *State) fire(tx txn, c *cursor, kind timerKind, id, value []byte) (places int, err error) {
	switch kind {
	case timerDelayed:
		return s.letGo(tx, c, id, value)
	case timerMQTTSession:
		return 1, s.expireMQTTSession(tx, c, id, value)
	case timerRetained:
		return 1, s.expireRetained(tx, id, value)
	default:
		return 0, core.E(core.Corrupt, "timer %x is of kind %d, which this program does not know", id, kind)
	}
}

// newTimers are the time indexes of a state.
func newTimers() (timers, queueTimers, mqttDue *index.Timers) {
	return index.NewTimers(prefixTimer, 't'), index.NewTimers(prefixTimer, 'q'), index.NewTimers(prefixTimer, 'm')
}

// setTimer sets the timer of a kind and id, or moves it. value is what fire gets.
func (s *State) setTimer(tx txn, kind timerKind, id []byte, due int64, value []byte) error {
	return s.timers.Set(tx, append([]byte{byte(kind)}, id...), due, value)
}

// Tick fires timers that are due by the entry's time, the earliest first. When those that it
// has fired led to more than maxTapWork places, the rest stays for the next one.
type Tick struct {
	Work int // timers, at most
}

// maxTick bounds the work of one command.
const maxTick = 1 << 12

// Command encodes: work uvarint.
func (c *Tick) Command() core.Command {
	return core.Command{Code: CodeTick, Head: wire.AppendUvarint(nil, uint64(c.Work))}
}

func decodeTick(body []byte) (c Tick, err error) {
	r := wire.NewReader(body)
	c.Work = int(min(r.Uvarint(), maxTick+1))
	return c, r.Close()
}

// tick's result has how many timers were fired: DecodeCount.
func (s *State) tick(tx txn, c *cursor, body []byte) core.Result {
	cmd, err := decodeTick(body)
	if err != nil {
		return invalid("tick", err)
	}
	if cmd.Work < 1 || cmd.Work > maxTick {
		return refused(core.Invalid, "tick: work of %d, want 1 to %d", cmd.Work, maxTick)
	}
	s.due, err = s.timers.Take(tx, c.time, cmd.Work, s.due[:0])
	if err != nil {
		return s.storeResult(err)
	}
	fired, places := 0, 0
	for _, t := range s.due {
		if places > maxTapWork {
			if err := s.timers.Set(tx, t.ID, t.Due, t.Value); err != nil {
				return s.storeResult(err)
			}
			continue
		}
		n, err := s.fire(tx, c, timerKind(t.ID[0]), t.ID[1:], t.Value)
		if err != nil {
			return s.storeResult(err)
		}
		fired, places = fired+1, places+n
	}
	clear(s.due)
	return core.Result{Body: wire.AppendUvarint(nil, uint64(fired))}
}

// Timers are those that Tick fires, for reading.
func (s *State) Timers() *index.Timers { return s.timers }

// QueueTimers are those of queues, for reading; see DecodeQueueTimer.
func (s *State) QueueTimers() *index.Timers { return s.queueTimers }

// OnTimers sets what is told, on the applier's goroutine, that timers were set. It must not
// block.
func (s *State) OnTimers(fn func()) { s.onTimers.Store(&fn) }

// publishTimers tells who waits for timers of those that were set.
func (s *State) publishTimers() {
	a, b, d := s.timers.Publish(), s.queueTimers.Publish(), s.mqttDue.Publish()
	if fn := s.onTimers.Load(); fn != nil && (a || b || d) {
		(*fn)()
	}
}

func queueTimerID(kind QueueTimer, q core.QueueID) []byte {
	return binary.BigEndian.AppendUint64([]byte{byte(kind)}, uint64(q))
}

// DecodeQueueTimer is what a timer of a queue is for, by its id.
func DecodeQueueTimer(id []byte) (kind QueueTimer, q core.QueueID, err error) {
	if len(id) != 9 {
		return 0, 0, core.E(core.Corrupt, "timer of a queue %x", id)
	}
	return QueueTimer(id[0]), core.QueueID(binary.BigEndian.Uint64(id[1:])), nil
}
