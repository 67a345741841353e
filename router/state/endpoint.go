package state

import (
	"encoding/binary"

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
	s.subscriptionsChanged = true
	if len(cmd.Note) == 0 {
		tx.Delete(endpointKey(cmd.Name))
		return core.Result{}
	}
	tx.Set(endpointKey(cmd.Name), append([]byte{valueVersion}, cmd.Note...))
	return core.Result{}
}

// SubscriptionChanges counts batches of entries that changed a subscription, or what is known
// of its endpoint, once readers see them.
func (s *State) SubscriptionChanges() uint64 { return s.subscriptionChanges.Load() }

func (s *State) countSubscriptionChanges() {
	if s.subscriptionsChanged {
		s.subscriptionsChanged = false
		s.subscriptionChanges.Add(1)
	}
}
