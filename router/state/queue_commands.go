package state

import (
	"polylog/core"
	"polylog/core/wire"
)

// DeclareQueue creates a named queue unless one of that name exists, which is then left as
// it is: whoever declares compares.
type DeclareQueue struct {
	Name   core.Name
	Config QueueConfig
}

// Command encodes: name, group-only byte, ack configuration; and where the configuration has
// more than that, by another code, the rest of it.
func (c *DeclareQueue) Command() core.Command {
	b := wire.AppendBool(appendName(nil, c.Name), c.Config.GroupOnly)
	b = c.Config.AckConfig.appendTo(b)
	if c.Config.plain() {
		return core.Command{Code: CodeDeclareQueue, Head: b}
	}
	return core.Command{Code: CodeDeclareFullQueue, Head: c.Config.appendExtra(b, 0)}
}

func readDeclareQueue(r *wire.Reader) (c DeclareQueue) {
	c.Name = readName(r)
	c.Config.GroupOnly, c.Config.AckConfig = r.Bool(), readAckConfig(r)
	return c
}

func decodeDeclareQueue(body []byte) (c DeclareQueue, err error) {
	r := wire.NewReader(body)
	c = readDeclareQueue(&r)
	return c, r.Close()
}

func decodeDeclareFullQueue(body []byte) (c DeclareQueue, err error) {
	r := wire.NewReader(body)
	c = readDeclareQueue(&r)
	c.Config.readExtra(&r)
	if err := r.Close(); err != nil {
		return c, err
	}
	if c.Config.plain() {
		return c, core.E(core.Invalid, "nothing in it but what a plain declaration has")
	}
	return c, nil
}

// DecodeDeclared reads the body of the result of DeclareQueue: the queue of that name, and
// whether it is a new one. Created byte, queue uvarint.
func DecodeDeclared(body []byte) (q core.QueueID, created bool, err error) {
	r := wire.NewReader(body)
	created = r.Bool()
	q = core.QueueID(r.Uvarint())
	return q, created, r.Close()
}

func (s *State) declareQueue(tx txn, c *cursor, body []byte) core.Result {
	cmd, err := decodeDeclareQueue(body)
	if err != nil {
		return invalid("declare queue", err)
	}
	return s.declare(tx, c, &cmd)
}

func (s *State) declareFullQueue(tx txn, c *cursor, body []byte) core.Result {
	cmd, err := decodeDeclareFullQueue(body)
	if err != nil {
		return invalid("declare queue", err)
	}
	return s.declare(tx, c, &cmd)
}

func (s *State) declare(tx txn, c *cursor, cmd *DeclareQueue) core.Result {
	if cmd.Name.Name == "" || cmd.Name.Namespace == "" {
		return refused(core.Invalid, "declare queue: the name is empty")
	}
	if err := s.inNamespace(cmd.Name); err != nil {
		return core.Result{Err: err}
	}
	declared := func(id core.QueueID, created bool) core.Result {
		return core.Result{Body: wire.AppendUvarint(wire.AppendBool(nil, created), uint64(id))}
	}
	old, err := ReadQueue(tx, cmd.Name)
	if err != nil {
		return s.storeResult(err)
	}
	if old != nil {
		kept, err := s.declaredAgain(tx, c, old)
		if err != nil {
			return s.storeResult(err)
		}
		if kept {
			return declared(old.ID, false)
		}
	}
	if owner := cmd.Config.Owner; owner != "" {
		switch ok, err := s.owns(tx, owner); {
		case err != nil:
			return s.storeResult(err)
		case !ok:
			return refused(core.Fenced, "declare queue %s: %.80q is no valid lease", cmd.Name, owner)
		}
	}
	id, err := s.take(tx, counterQueues, 1)
	if err != nil {
		return s.storeResult(err)
	}
	if err := s.countQueue(tx, cmd.Name.Namespace, 1); err != nil {
		return s.storeResult(err)
	}
	q := &Queue{Name: cmd.Name, ID: core.QueueID(id), Created: c.time, QueueConfig: cmd.Config}
	tx.Set(queueNameKey(q.Name), encodeQueueID(q.ID))
	tx.Set(queueKey(q.ID), q.encode())
	s.queuesChanged = true
	if q.Owner != "" {
		tx.Set(ownedKey(q.Owner, q.ID), nil)
		s.owned++
	}
	if q.policies = s.policies; q.Effective().Expires > 0 {
		if err := s.used(tx, c, q); err != nil {
			return s.storeResult(err)
		}
	}
	return declared(q.ID, true)
}

// declaredAgain is a declaration of a queue that is there: a use of it. It is false where the
// queue's owner is gone, and the queue with it.
func (s *State) declaredAgain(tx txn, c *cursor, q *Queue) (kept bool, err error) {
	if q.Owner != "" {
		alive, err := s.owns(tx, q.Owner)
		if err != nil {
			return false, err
		}
		if !alive {
			a, err := s.ackGroups(tx, q.ID)
			if err != nil {
				return false, err
			}
			return false, s.removeQueue(tx, a)
		}
	}
	q.policies = s.policies
	return true, s.used(tx, c, q)
}

// DeleteQueue deletes a named queue with its messages and groups; what it takes to remove
// those is left to Sweep. The result's body says how many messages its own group had not
// settled: uvarint.
type DeleteQueue struct {
	Queue   core.QueueID
	IfEmpty bool // Conflict when that group, or any other, has not settled everything
}

// Command encodes: queue uvarint, if-empty byte.
func (c *DeleteQueue) Command() core.Command {
	return core.Command{Code: CodeDeleteQueue, Head: wire.AppendBool(wire.AppendUvarint(nil, uint64(c.Queue)), c.IfEmpty)}
}

func decodeDeleteQueue(body []byte) (c DeleteQueue, err error) {
	r := wire.NewReader(body)
	c.Queue, c.IfEmpty = core.QueueID(r.Uvarint()), r.Bool()
	return c, r.Close()
}

// DecodeCount reads the body of a result that is one number.
func DecodeCount(body []byte) (n int64, err error) {
	r := wire.NewReader(body)
	n = int64(r.Uvarint())
	return n, r.Close()
}

func (s *State) deleteQueue(tx txn, body []byte) core.Result {
	cmd, err := decodeDeleteQueue(body)
	if err != nil {
		return invalid("delete queue", err)
	}
	a, err := s.ackGroups(tx, cmd.Queue)
	switch {
	case err != nil:
		return s.storeResult(err)
	case a == nil || a.queue == nil:
		return refused(core.NotFound, "no queue %d", cmd.Queue)
	}
	head, _, err := tx.Queue(cmd.Queue)
	if err != nil {
		return s.storeResult(err)
	}
	own := int64(0)
	for name, g := range a.groups {
		n := g.unsettled(head.Start, head.End)
		if n > 0 && cmd.IfEmpty {
			return refused(core.Conflict, "queue %s is not empty", a.queue.Name)
		}
		if name == "" {
			own = n
		}
	}
	if err := s.removeQueue(tx, a); err != nil {
		return s.storeResult(err)
	}
	if _, err := s.sweepBindings(tx, bindingsAtOnce); err != nil {
		return s.storeResult(err)
	}
	return core.Result{Body: wire.AppendUvarint(nil, uint64(own))}
}

// removeQueue removes a named queue, for whatever reason. What belongs to it is left to Sweep,
// and bindings to sweepBindings.
func (s *State) removeQueue(tx txn, a *ackQueue) error {
	q := a.queue
	if err := s.countQueue(tx, q.Name.Namespace, -1); err != nil {
		return err
	}
	tx.Delete(queueNameKey(q.Name))
	tx.Delete(queueKey(q.ID))
	s.queuesChanged = true
	s.leaveAcks(tx, q.ID)
	s.settled.remove(tx, q.ID)
	s.unbindDestination(tx, destinationID{toQueue, uint64(q.ID)})
	s.routing.forgetQueue(q.Name)
	s.doom(tx, []core.QueueID{q.ID})
	s.touch(q.ID)
	if q.Owner != "" {
		tx.Delete(ownedKey(q.Owner, q.ID))
		s.owned--
	}
	return s.cancelQueueTimers(tx, q.ID)
}

// Where a new group begins, beside offsets.
const (
	FromStart core.Offset = -2 // the queue's first message
	FromEnd   core.Offset = -1 // the next message
)

// CreateAckGroup creates a group on a queue, which may be a partition of a topic, unless
// it has one of that name. The result's body is a byte: 1 when it is new.
type CreateAckGroup struct {
	Queue  core.QueueID
	Group  string
	From   core.Offset
	Config AckConfig
}

// maxAckGroups bounds the groups of one queue: all of them are in memory when one is in use.
const maxAckGroups = 10_000

// Command encodes: queue uvarint, group, from varint, ack configuration.
func (c *CreateAckGroup) Command() core.Command {
	b := wire.AppendString(wire.AppendUvarint(nil, uint64(c.Queue)), c.Group)
	return core.Command{Code: CodeCreateAckGroup, Head: c.Config.appendTo(wire.AppendVarint(b, int64(c.From)))}
}

func decodeCreateAckGroup(body []byte) (c CreateAckGroup, err error) {
	r := wire.NewReader(body)
	c = CreateAckGroup{core.QueueID(r.Uvarint()), r.String(), core.Offset(r.Varint()), readAckConfig(&r)}
	return c, r.Close()
}

func (s *State) createAckGroup(tx txn, body []byte) core.Result {
	cmd, err := decodeCreateAckGroup(body)
	if err != nil {
		return invalid("create group", err)
	}
	return s.addAckGroup(tx, &cmd)
}

func (s *State) addAckGroup(tx txn, cmd *CreateAckGroup) core.Result {
	switch {
	case cmd.From < FromStart:
		return refused(core.Invalid, "create group: offset %d", cmd.From)
	case cmd.Group == "":
		return refused(core.Invalid, "create group: the name is empty")
	}
	a, err := s.ackGroups(tx, cmd.Queue)
	switch {
	case err != nil:
		return s.storeResult(err)
	case a == nil:
		return refused(core.NotFound, "no queue %d", cmd.Queue)
	case a.groups[cmd.Group] != nil:
		return core.Result{Body: []byte{0}}
	case len(a.groups) >= maxAckGroups:
		return refused(core.Limit, "queue %d has %d groups already", cmd.Queue, len(a.groups))
	}
	head, _, err := tx.Queue(cmd.Queue)
	if err != nil {
		return s.storeResult(err)
	}
	from := cmd.From
	switch from {
	case FromStart:
		from = head.Start
	case FromEnd:
		from = head.End
	}
	g := &ackGroup{AckConfig: cmd.Config}
	g.acks.Add(0, min(max(from, head.Start), head.End))
	g.mark = g.acks.Floor()
	a.groups[cmd.Group] = g
	a.findFloor()
	s.ackChanged(ackKey{cmd.Queue, cmd.Group}, g)
	return core.Result{Body: []byte{1}}
}

// DeleteAckGroup deletes a group of a queue. What only it had not settled goes.
type DeleteAckGroup struct {
	Queue core.QueueID
	Group string // not the queue's own
}

// Command encodes: queue uvarint, group.
func (c *DeleteAckGroup) Command() core.Command {
	return core.Command{Code: CodeDeleteAckGroup, Head: wire.AppendString(wire.AppendUvarint(nil, uint64(c.Queue)), c.Group)}
}

func decodeDeleteAckGroup(body []byte) (c DeleteAckGroup, err error) {
	r := wire.NewReader(body)
	c = DeleteAckGroup{core.QueueID(r.Uvarint()), r.String()}
	return c, r.Close()
}

func (s *State) deleteAckGroup(tx txn, body []byte) core.Result {
	cmd, err := decodeDeleteAckGroup(body)
	if err != nil {
		return invalid("delete group", err)
	}
	return s.dropAckGroup(tx, &cmd)
}

func (s *State) dropAckGroup(tx txn, cmd *DeleteAckGroup) core.Result {
	a, err := s.ackGroups(tx, cmd.Queue)
	switch {
	case err != nil:
		return s.storeResult(err)
	case a == nil || a.groups[cmd.Group] == nil || cmd.Group == "":
		return core.Result{Err: noAckGroup(cmd.Queue, cmd.Group)}
	}
	delete(a.groups, cmd.Group)
	a.findFloor()
	tx.Delete(ackKey{cmd.Queue, cmd.Group}.key())
	s.touch(cmd.Queue) // its consumers find it gone
	budget := trimmedAtOnce
	if err := s.trimSettled(tx, cmd.Queue, a, &budget); err != nil {
		return s.storeResult(err)
	}
	return core.Result{}
}
