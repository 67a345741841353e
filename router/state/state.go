package state

import (
	"sync"
	"sync/atomic"

	"polylog/core"
	"polylog/core/wire"
	"polylog/index"
)

// Options are for Open. The zero value is fine.
type Options struct {
	// Touched is called after each applied batch of entries with the queues that
	// grew or went, some maybe twice. It runs on the applier's goroutine, holds
	// no lock and must not keep the slice. OnTouched sets it later.
	Touched func([]core.QueueID)
	// Fatal is told that the store failed, or that the log was written by a newer
	// program: this replica cannot go on. nil panics.
	Fatal func(error)
	// Complain is told what is in the state that this program makes less of than another one did; see
	// pattern.go. It must not block.
	Complain func(error)
	// Level is the feature level of a store that has none yet, 1 when 0. Only tests set
	// it: replicas that began differently would not agree.
	Level int
}

// State is the state machine.
type State struct {
	store    *index.Store
	fatal    func(error)
	complain func(error)
	term     atomic.Uint64 // of the newest entry whose application has begun
	touched  atomic.Pointer[func([]core.QueueID)]

	onDigest     atomic.Pointer[func(*index.Snapshot)]
	onTransacted atomic.Pointer[func([]Transacted)]
	onLeases     atomic.Pointer[func([]LeaseEvent)]
	onTimers     atomic.Pointer[func()]
	onOverfull   atomic.Pointer[func([]core.QueueID)]
	onUsers      atomic.Pointer[func()]

	// applying is held by the applier while it works, so that Producers can look at
	// its memory.
	applying sync.Mutex
	// The applier's own; see each family's file.
	all             topicSet          // as of the last applied command
	changed         []topicChange     // not yet in view
	doomed          doomed            // of deleted topics
	broker          map[string]string // as of the last applied command; replaced, never changed
	brokerChanged   bool              // view has an older one
	producerAge     int64             // from broker
	members         map[string]Member // as of the last applied command; replaced, never changed
	sightings       map[string]Sighting
	membersChanged  bool               // view has an older one, of members or sightings
	sessions        map[string]Session // by node, as of the last applied command; replaced, never changed
	sessionsChanged bool               // view has an older one
	leaseEvents     []LeaseEvent       // of this batch
	level           int                // feature level as of the last applied command
	settled         settledQueues
	acks            map[core.QueueID]*ackQueue
	queuesChanged   bool           // since queueGen
	policies        *policySet     // as of the last applied command
	timers          *index.Timers  // that Tick fires
	queueTimers     *index.Timers  // that the leader looks at
	due             []index.Timer  // of the Tick at hand
	owned           int            // queues that have owners
	overfull        []core.QueueID // that became too long in this batch, some maybe twice
	routing         routing
	users           users
	publishing      publishing   // the publish at hand
	settledByTx     []Transacted // of this batch
	letterWork      int          // how many places the dead letters of the settle at hand may still go to
	tapping         passage      // the record of a topic at hand
	taps            []topicTap   // beside bindings
	mqtt            mqtt
	mqttDue         *index.Timers // of what the leader is to publish
	dirtyAcks       []ackKey      // groups of which the KV space has an older version
	producers       map[producerKey]*producer
	dirty           []producerKey  // producers of which the KV space has an older version
	round           uint64         // counts checkpoints
	queues          []core.QueueID // touched in this batch
	storeErr        error          // why this replica cannot go on
	digesting       bool           // a Digest command was applied last; see digest.go

	subChanges subscriptionChanges

	// view is what readers see: complete batches only.
	view struct {
		sync.RWMutex
		topics    topicSet
		broker    map[string]string
		members   map[string]Member
		sightings map[string]Sighting
		sessions  map[string]Session
		level     atomic.Int32
	}
	policyView    atomic.Pointer[policySet]
	generation    atomic.Uint64 // of view.broker
	queueGen      atomic.Uint64 // of the definitions of named queues
	endedSessions atomic.Int64  // that SweepLeases has work with
	toSweep       atomic.Int64  // queues for readers that Sweep has work with
}

// cursor says where in the log Apply is.
type cursor struct {
	index core.LogIndex
	time  int64 // the entry's, ms
	term  core.Term
}

// Open takes the state from the store.
func Open(store *index.Store, o Options) (*State, error) {
	s := &State{
		store:     store,
		fatal:     o.Fatal,
		complain:  o.Complain,
		all:       newTopicSet(),
		broker:    map[string]string{},
		members:   map[string]Member{},
		sightings: map[string]Sighting{},
		sessions:  map[string]Session{},
		acks:      map[core.QueueID]*ackQueue{},
		producers: map[producerKey]*producer{},
	}
	s.timers, s.queueTimers, s.mqttDue = newTimers()
	if s.fatal == nil {
		s.fatal = func(err error) { panic(err) }
	}
	if s.complain == nil {
		s.complain = func(error) {}
	}
	if o.Touched != nil {
		s.OnTouched(o.Touched)
	}
	s.view.topics = newTopicSet()
	if err := s.loadTopics(); err != nil {
		return nil, err
	}
	if err := s.loadDoomed(); err != nil {
		return nil, err
	}
	if err := s.loadSettled(); err != nil {
		return nil, err
	}
	if err := s.loadRouting(); err != nil {
		return nil, err
	}
	if err := s.loadMQTT(); err != nil {
		return nil, err
	}
	if err := s.loadBroker(); err != nil {
		return nil, err
	}
	if err := s.loadMembers(); err != nil {
		return nil, err
	}
	if err := s.loadSightings(); err != nil {
		return nil, err
	}
	if err := s.loadSessions(); err != nil {
		return nil, err
	}
	if err := s.loadPolicies(); err != nil {
		return nil, err
	}
	if err := s.loadUsers(); err != nil {
		return nil, err
	}
	if err := s.loadOwned(); err != nil {
		return nil, err
	}
	if err := s.loadLevel(o.Level); err != nil {
		return nil, err
	}
	s.view.members, s.view.sightings, s.view.sessions = s.members, s.sightings, s.sessions
	s.policyView.Store(s.policies)
	s.view.level.Store(int32(s.level))
	s.producerAge = producerAge(s.broker)
	s.generation.Store(1)
	return s, nil
}

// OnTouched sets Options.Touched.
func (s *State) OnTouched(fn func([]core.QueueID)) { s.touched.Store(&fn) }

// Store is the store that the state is kept in, for reading.
func (s *State) Store() *index.Store { return s.store }

// Applied is the index of the last entry that was applied.
func (s *State) Applied() core.LogIndex { return s.store.Applied() }

// Durable is the index of the last entry whose effects are on disk.
func (s *State) Durable() core.LogIndex { return s.store.Durable() }

// FirstLive is a lower bound of the log entries that queues refer to; 0 when they refer
// to none.
func (s *State) FirstLive() core.LogIndex { return s.store.FirstLive() }

// OverlayBytes is the memory that the next checkpoint would free.
func (s *State) OverlayBytes() int64 { return s.store.OverlayBytes() }

// SaveTo copies what is durable to a directory that does not exist yet, for another node,
// and returns the index of the last entry that the copy contains.
func (s *State) SaveTo(dir string) (core.LogIndex, error) { return s.store.SaveTo(dir) }

// Apply applies committed entries and returns, for each, one result per command.
func (s *State) Apply(entries []core.Entry) [][]core.Result {
	out := make([][]core.Result, len(entries))
	for done := 0; done < len(entries); {
		n, err := s.applyPart(entries[done:], out[done:])
		if err != nil {
			s.fatal(err)
			return out // nothing from here on was done
		}
		done += n
	}
	s.publish()
	s.publishUsers()
	s.publishTimers()
	s.publishOverfull()
	s.giveLeaseEvents() // first: whose queues go with a lease hears why
	if fn := s.touched.Load(); fn != nil && len(s.queues) > 0 {
		(*fn)(s.queues)
	}
	s.giveTransacted()
	s.subChanges.publish()
	s.queues = s.queues[:0]
	if cap(s.queues) > maxTouched {
		s.queues = nil
	}
	return out
}

// Term is that of the newest entry that is, or is being, applied since the start; 0 where there is
// none. Who reads of the state first, and then Term, knows that nothing newer has led to what it read.
func (s *State) Term() core.Term { return core.Term(s.term.Load()) }

// applyPart applies entries up to the first one after which the state is to be looked at,
// or all, and says how many: readers see them at once.
func (s *State) applyPart(entries []core.Entry, out [][]core.Result) (n int, err error) {
	s.applying.Lock()
	defer s.applying.Unlock()
	err = s.store.Update(func(tx *index.Tx) error {
		for n < len(entries) && !s.digesting {
			s.limitAcks(tx)
			out[n] = s.applyEntry(tx, entries[n])
			if s.storeErr != nil {
				return s.storeErr
			}
			tx.SetApplied(entries[n].Index)
			n++
		}
		if s.digesting {
			return s.flush(tx)
		}
		return nil
	})
	if err == nil && s.digesting {
		err = s.giveDigest()
	}
	return n, err
}

// maxTouched keeps the deletion of a very large topic from pinning memory for ever.
const maxTouched = 1 << 12

// applyEntry applies one entry's commands. What cannot be taken apart has one
// result that says so, after those of the commands before it.
func (s *State) applyEntry(tx *index.Tx, e core.Entry) []core.Result {
	results := make([]core.Result, 0, commandCount(e.Data))
	c := cursor{e.Index, e.Time(), e.Term}
	s.term.Store(uint64(e.Term))
	if len(e.Data) > 0 && e.Data[0] > core.EntryVersion {
		s.tooNew(e.Index, "version", int(e.Data[0]))
		return nil
	}
	err := e.Commands(func(code core.Code, body []byte, pos uint32) {
		if s.storeErr == nil {
			results = append(results, s.command(tx, &c, code, body, pos))
		}
	})
	if err != nil {
		results = append(results, refused(core.KindOf(err), "%v", err))
	}
	return results
}

// command is the table of what commands mean.
func (s *State) command(tx *index.Tx, c *cursor, code core.Code, body []byte, pos uint32) core.Result {
	if e := tooLow(code, s.level); e != nil {
		return core.Result{Err: e}
	}
	switch code {
	case CodeAppend:
		return s.append(tx, c, body, pos)
	case CodeCreateTopic:
		return s.createTopic(tx, c, body, pos)
	case CodeDeleteTopic:
		return s.deleteTopic(tx, body)
	case CodeCreatePartitions:
		return s.createPartitions(tx, body)
	case CodeAlterTopicConfig:
		return s.alterTopicConfig(tx, body)
	case CodeAlterBrokerConfig:
		return s.alterBrokerConfig(tx, body)
	case CodeCommitOffsets:
		return s.commitOffsets(tx, c, body)
	case CodeDeleteOffsets:
		return s.deleteOffsets(tx, body)
	case CodeDeleteGroup:
		return s.deleteGroup(tx, body)
	case CodeAllocateProducerIDs:
		return s.allocateProducerIDs(tx, body)
	case CodeTrimQueues:
		return s.trimQueues(tx, body)
	case CodeExpire:
		return s.expire(tx, c, body)
	case CodeSweep:
		return s.sweep(tx, body)
	case CodeAnnounce:
		return s.announce(tx, body)
	case CodeSetFeatureLevel:
		return s.setFeatureLevel(tx, c, body)
	case CodeForgetMember:
		return s.forgetMember(tx, body)
	case CodeNoteMembers:
		return s.noteMembers(tx, body)
	case CodeDeclareQueue:
		return s.declareQueue(tx, c, body)
	case CodeDeleteQueue:
		return s.deleteQueue(tx, body)
	case CodeCreateAckGroup:
		return s.createAckGroup(tx, body)
	case CodeDeleteAckGroup:
		return s.deleteAckGroup(tx, body)
	case CodeSettle:
		return s.settle(tx, c, body, decodeSettle, maxLetterWork)
	case CodeOpenSession:
		return s.openSession(tx, body)
	case CodeEndSession:
		return s.endSessionCommand(tx, body)
	case CodeAcquireLeaseFor:
		return s.acquireLeaseFor(tx, c, body)
	case CodeAcquireLease:
		return s.acquireLease(tx, c, body)
	case CodeReleaseLease:
		return s.releaseLease(tx, c, body)
	case CodeSweepLeases:
		return s.sweepLeases(tx, c, body)
	case CodeSetSubscription:
		return s.setSubscription(tx, c, body)
	case CodeDeleteSubscription:
		return s.deleteSubscription(tx, body)
	case CodePublishOnce:
		return s.publishOnce(tx, c, body, pos)
	case CodeSeekSubscription:
		return s.seekSubscription(tx, body)
	case CodeSetHook:
		return s.setHook(tx, c, body)
	case CodeDeleteHook:
		return s.deleteHook(tx, body)
	case CodeNoteEndpoint:
		return s.noteEndpoint(tx, body)
	case CodeSetUser:
		return s.setUser(tx, c, body)
	case CodeDeleteUser:
		return s.deleteUser(tx, body)
	case CodeSetRights:
		return s.setRights(tx, body)
	case CodeDigest:
		return s.digest(c, body)
	case CodeDeclareExchange:
		return s.declareExchange(tx, c, body)
	case CodeDeleteExchange:
		return s.deleteExchange(tx, body)
	case CodeBind:
		return s.bind(tx, body)
	case CodeUnbind:
		return s.unbind(tx, body)
	case CodePublish:
		return s.publishTo(tx, c, body, pos)
	case CodeCreateNamespace:
		return s.createNamespace(tx, c, body)
	case CodeRetain:
		return s.retain(tx, c, body, pos)
	case CodeOpenMQTT:
		return s.openMQTT(tx, c, body)
	case CodeCloseMQTT:
		return s.closeMQTT(tx, c, body)
	case CodeSubscribeMQTT:
		return s.subscribeMQTT(tx, c, body)
	case CodeUnsubscribeMQTT:
		return s.unsubscribeMQTT(tx, body)
	case CodePublishMQTT:
		return s.publishMQTT(tx, c, body, pos)
	case CodeFlowMQTT:
		return s.flowMQTT(tx, c, body)
	case CodePublishDue:
		return s.publishDue(tx, c, body, pos)
	case CodeEndMQTT:
		return s.endMQTT(tx, c, body)
	case CodeCarryMQTTNames:
		return s.carryMQTTNames(tx, body)
	case CodeDeleteNamespace:
		return s.deleteNamespace(tx, body)
	case CodeTransact:
		return s.transact(tx, c, body, pos)
	case CodeDeclareFullQueue:
		return s.declareFullQueue(tx, c, body)
	case CodeTick:
		return s.tick(tx, c, body)
	case CodeSettleFull:
		return s.settle(tx, c, body, decodeSettleFull, maxLetterWork)
	case CodeDeleteUnused:
		return s.deleteUnused(tx, c, body)
	case CodeDeleteOwned:
		return s.deleteOwned(tx, body)
	case CodeSetPolicy:
		return s.setPolicy(tx, body)
	case CodeDeletePolicy:
		return s.deletePolicy(tx, body)
	}
	s.tooNew(c.index, "command code", int(code))
	return refused(core.Unsupported, "unknown command code %d", code)
}

// tooNew ends this replica at an entry that only a newer program can apply: passing
// over it would make its state another one than its peers'.
func (s *State) tooNew(i core.LogIndex, what string, n int) {
	s.storeErr = core.E(core.Unsupported, "log entry %d has %s %d, which this program does not know: a newer one wrote it", i, what, n)
}

// commandCount guesses how many commands an entry has, to allocate once. It never
// guesses more than there can be.
func commandCount(data []byte) int {
	n := 0
	for pos := core.EntryHeaderLen; len(data)-pos >= core.CommandHeaderLen; n++ {
		step := int(uint32(data[pos])<<24 | uint32(data[pos+1])<<16 | uint32(data[pos+2])<<8 | uint32(data[pos+3]))
		pos += 4 + max(step, 1)
	}
	return n
}

// Configure keeps the raft configuration that holds from index on.
func (s *State) Configure(index core.LogIndex, conf []byte) {
	if err := s.update(func(tx txn) error {
		tx.SetConfiguration(index, conf)
		return nil
	}); err != nil {
		s.fatal(err)
	}
}

// txn shortens signatures.
type txn = *index.Tx

func (s *State) update(fn func(txn) error) error {
	s.applying.Lock()
	defer s.applying.Unlock()
	return s.store.Update(fn)
}

// Freeze prepares a checkpoint of everything that was applied.
func (s *State) Freeze() (core.Checkpoint, error) {
	if err := s.update(s.flush); err != nil {
		return nil, err
	}
	cp, err := s.store.Freeze()
	if err != nil {
		return nil, err
	}
	s.applying.Lock()
	defer s.applying.Unlock()
	s.round++
	s.forgetIdleProducers()
	s.forgetIdleAcks()
	return cp, nil
}

// flush writes to the KV space what is newer in memory.
func (s *State) flush(tx txn) error {
	s.flushAcks(tx)
	return s.flushProducers(tx)
}

// Hash is a digest of the whole state, equal on all replicas that applied the
// same entries. It belongs to the applier's goroutine.
func (s *State) Hash() ([32]byte, error) {
	if err := s.update(s.flush); err != nil {
		return [32]byte{}, err
	}
	return s.store.Hash()
}

// touch notes that a queue's readers should look.
func (s *State) touch(q core.QueueID) {
	if n := len(s.queues); n > 0 && s.queues[n-1] == q {
		return
	}
	s.queues = append(s.queues, q)
}

// storeResult turns an error of the store into a result where it is about the
// command, and else remembers it as the end.
func (s *State) storeResult(err error) core.Result {
	switch k := core.KindOf(err); k {
	case core.NotFound, core.Exists, core.OutOfRange, core.Invalid:
		return refused(k, "%v", err)
	default:
		s.storeErr = err
	}
	return refused(core.Internal, "%v", err)
}

// scanKeys copies the first keys in [start, end), limit at most.
func scanKeys(r index.Reader, start, end []byte, limit int) (keys [][]byte, err error) {
	err = r.Scan(start, end, func(k, _ []byte) bool {
		keys = append(keys, append([]byte(nil), k...))
		return len(keys) < limit
	})
	return keys, err
}

func checkVersion(r *wire.Reader, what string) error {
	if v := r.Byte(); v != valueVersion {
		return core.E(core.Corrupt, "%s: value of version %d, this binary knows %d", what, v, valueVersion)
	}
	return nil
}
