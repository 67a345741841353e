package state

import (
	"encoding/binary"
	"slices"
	"sort"
	"sync"
	"sync/atomic"

	"polylog/core"
	"polylog/core/wire"
	"polylog/index"
)

// What is known of the endpoint that a subscription pushes to outlives who pushes: since when
// it fails, whether it was switched off. It is a note of the protocol's, beside the
// subscription, so that whoever changes the subscription and who pushes do not overwrite each
// other's.

func endpointKey(n core.Name) []byte {
	return append(wire.AppendString([]byte{prefixHTTP, 'e'}, n.Namespace), n.Name...)
}

// ReadEndpoint is the note about a subscription's endpoint; nil when there is none.
func ReadEndpoint(r index.Reader, n core.Name) ([]byte, error) {
	v, ok, err := r.Get(endpointKey(n))
	if err != nil || !ok || len(v) < 1 {
		return nil, err
	}
	return v[1:], nil
}

// maxEndpointNote is in bytes.
const maxEndpointNote = 4 << 10

// NoteEndpoint keeps a note about the endpoint of a subscription that was created at a time;
// NotFound where that one is gone. An empty note is none.
type NoteEndpoint struct {
	Name    core.Name
	Created int64
	Note    []byte
}

// Command encodes: name, created u64, note.
func (c *NoteEndpoint) Command() core.Command {
	b := binary.BigEndian.AppendUint64(appendName(nil, c.Name), uint64(c.Created))
	return core.Command{Code: CodeNoteEndpoint, Head: wire.AppendBytes(b, c.Note)}
}

func decodeNoteEndpoint(body []byte) (c NoteEndpoint, err error) {
	r := wire.NewReader(body)
	c.Name, c.Created = readName(&r), int64(r.Uint64())
	c.Note = append([]byte(nil), r.Bytes()...)
	return c, r.Close()
}

func (s *State) noteEndpoint(tx txn, body []byte) core.Result {
	cmd, err := decodeNoteEndpoint(body)
	switch {
	case err != nil:
		return invalid("note endpoint", err)
	case len(cmd.Note) > maxEndpointNote:
		return refused(core.TooLarge, "note endpoint: %d bytes, at most %d are allowed", len(cmd.Note), maxEndpointNote)
	}
	sub, err := ReadSubscription(tx, cmd.Name)
	switch {
	case err != nil:
		return s.storeResult(err)
	case sub == nil || sub.Created != cmd.Created:
		return refused(core.NotFound, "subscription %s of that time does not exist", cmd.Name)
	}
	s.subChanges.note(cmd.Name)
	if len(cmd.Note) == 0 {
		tx.Delete(endpointKey(cmd.Name))
		return core.Result{}
	}
	tx.Set(endpointKey(cmd.Name), append([]byte{valueVersion}, cmd.Note...))
	return core.Result{}
}

// subscriptionChanges knows which subscriptions changed last, or what is known of whose endpoint: who watches
// very many of them need not read them all with each change.
type subscriptionChanges struct {
	batch []core.Name   // of the batch at hand; the applier's
	count atomic.Uint64 // of batches that changed some, once readers see them

	mu     sync.Mutex // guards what follows
	recent []subscriptionChange
	lost   uint64 // changes up to this count are not in recent any more
}

type subscriptionChange struct {
	count uint64
	name  core.Name
}

// maxRecentChanges bounds what is remembered; twice as much is there for a moment.
const maxRecentChanges = 1 << 12

// note is told of a change in the batch at hand.
func (c *subscriptionChanges) note(n core.Name) {
	if len(c.batch) == 0 || c.batch[len(c.batch)-1] != n {
		c.batch = append(c.batch, n)
	}
}

// publish gives the batch's changes to readers, who see its effects by now.
func (c *subscriptionChanges) publish() {
	if len(c.batch) == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	count := c.count.Load() + 1
	for _, n := range c.batch {
		c.recent = append(c.recent, subscriptionChange{count, n})
	}
	c.batch = nil
	if drop := len(c.recent) - maxRecentChanges; drop > maxRecentChanges {
		c.lost = c.recent[drop-1].count
		c.recent = slices.Clone(c.recent[drop:])
	}
	c.count.Store(count)
}

// SubscriptionChanges counts batches of entries that changed a subscription, or what is known
// of its endpoint, once readers see them.
func (s *State) SubscriptionChanges() uint64 { return s.subChanges.count.Load() }

// SubscriptionsChanged are the subscriptions that were changed after SubscriptionChanges was since, some maybe
// twice, and what it is now. It is false where more changed than is remembered.
func (s *State) SubscriptionsChanged(since uint64) (names []core.Name, now uint64, known bool) {
	c := &s.subChanges
	c.mu.Lock()
	defer c.mu.Unlock()
	now = c.count.Load()
	if since < c.lost {
		return nil, now, false
	}
	i := sort.Search(len(c.recent), func(i int) bool { return c.recent[i].count > since })
	for _, one := range c.recent[i:] {
		names = append(names, one.name)
	}
	return names, now, true
}
