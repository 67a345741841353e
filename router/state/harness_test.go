package state

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"polylog/core"
	"polylog/core/vfs"
	"polylog/index"
)

// machine is a state machine on a memory disk that can lose power.
type machine struct {
	t     testing.TB
	fs    *vfs.MemFS
	store *index.Store
	state *State
	fatal error // why the state gave up
	level int   // feature level of a new store

	complaints []error // see Options.Complain

	digests map[core.LogIndex][32]byte // of Digest commands
}

func newMachine(t testing.TB) *machine {
	m := &machine{t: t, fs: vfs.NewMem(), level: MaxLevel, digests: map[core.LogIndex][32]byte{}}
	m.open()
	t.Cleanup(func() { m.close() })
	return m
}

func (m *machine) open() {
	m.t.Helper()
	var err error
	if m.store, err = index.Open(index.Options{FS: m.fs, Dir: "index"}); err != nil {
		m.t.Fatal(err)
	}
	if m.state, err = Open(m.store, Options{
		Fatal: func(err error) { m.fatal = err }, Level: m.level,
		Complain: func(err error) { m.complaints = append(m.complaints, err) },
	}); err != nil {
		m.t.Fatal(err)
	}
	m.state.OnDigest(m.digest)
}

// digest hashes what a Digest command has given.
func (m *machine) digest(sn *index.Snapshot) {
	sum, err := sn.Hash()
	m.must(err)
	m.digests[sn.Applied()] = sum
	sn.Close()
}

// done applies an entry whose commands succeed, and has the last one's result.
func (m *machine) done(e []core.Entry) (last core.Result) {
	m.t.Helper()
	for _, last = range m.state.Apply(e)[0] {
		if last.Err != nil {
			m.t.Fatal(last.Err)
		}
	}
	return last
}

func (m *machine) close() {
	if err := m.store.Close(); err != nil {
		m.t.Error(err)
	}
}

func (m *machine) checkpoint() {
	m.t.Helper()
	cp, err := m.state.Freeze()
	if err == nil {
		err = cp.Write()
	}
	if err != nil {
		m.t.Fatal(err)
	}
}

// crash cuts the power, opens what is left and applies the log's rest.
func (m *machine) crash(log []core.Entry) {
	m.t.Helper()
	left := m.fs.CrashClone(vfs.CrashCloneCfg{})
	m.close()
	m.fs = left
	m.open()
	m.state.Apply(log[m.state.Applied():])
}

func (m *machine) hash() [32]byte {
	m.t.Helper()
	h, err := m.state.Hash()
	if err != nil {
		m.t.Fatal(err)
	}
	return h
}

// batch is a batch of n records without content; its max time is ms.
func batch(t testing.TB, n int, ms int64, p core.Producer) []byte {
	t.Helper()
	var bb core.BatchBuilder
	for range n {
		bb.Add(ms, nil, []byte("v"))
	}
	b, err := bb.Build(nil, core.BatchOptions{Producer: p})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// dump is the whole state in words.
func (m *machine) dump() string {
	m.t.Helper()
	m.hash() // flushes the producers
	var b strings.Builder
	s := m.state
	topics := s.Topics()
	slices.SortFunc(topics, func(a, b *Topic) int { return strings.Compare(a.Name.String(), b.Name.String()) })
	for _, t := range topics {
		fmt.Fprintf(&b, "topic %s id=%s created=%d", t.Name, t.ID, t.Created)
		if t.Internal {
			b.WriteString(" internal")
		}
		for _, c := range sortedPairs(t.Overrides) {
			fmt.Fprintf(&b, " %s", c)
		}
		b.WriteByte('\n')
		for i, q := range t.Queues {
			h, _, err := m.store.Queue(q) // zero before the first append
			m.must(err)
			fmt.Fprintf(&b, "  %d: queue %d [%d, %d)", i, q, h.Start, h.End)
			if h.Runs > 0 {
				fmt.Fprintf(&b, " in %d batches, max time %d", h.Runs, h.MaxTime)
			}
			b.WriteByte('\n')
		}
	}
	broker, _ := s.BrokerConfig()
	for _, c := range sortedPairs(broker) {
		fmt.Fprintf(&b, "broker %s\n", c)
	}
	m.dumpQueues(&b)
	m.dumpRouting(&b)
	m.dumpSubscriptions(&b)
	m.dumpMembers(&b)
	m.dumpLeases(&b)
	m.dumpGroups(&b)
	m.dumpProducers(&b)
	m.dumpDoomed(&b)
	return b.String()
}

func (m *machine) dumpMembers(b *strings.Builder) {
	if l := m.state.Level(); l != m.level {
		fmt.Fprintf(b, "feature level %d\n", l)
	}
	members := m.state.Members()
	for _, id := range slices.Sorted(maps.Keys(members)) {
		n := members[id]
		fmt.Fprintf(b, "member %s instance=%s addr=%s version=%q level=%d", n.ID, n.Instance, n.Addr, n.Version, n.MaxLevel)
		for _, e := range sortedPairs(n.Endpoints) {
			fmt.Fprintf(b, " %s", e)
		}
		if seen, ok := m.state.Sightings()[id]; ok {
			fmt.Fprintf(b, " held=%d", seen.Held)
			if seen.Away {
				b.WriteString(" away")
			}
		}
		b.WriteByte('\n')
	}
}

func (m *machine) dumpGroups(b *strings.Builder) {
	var groups []Group
	m.must(ReadGroups(m.store, func(g Group) bool { groups = append(groups, g); return true }))
	for _, g := range groups {
		fmt.Fprintf(b, "group %s type=%q time=%d\n", g.Name, g.ProtocolType, g.Time)
		offsets, err := ReadOffsets(m.store, g.Name)
		m.must(err)
		for _, o := range offsets {
			fmt.Fprintf(b, "  %s offset=%d epoch=%d metadata=%q time=%d\n", m.queueName(o.Queue), o.Offset, o.LeaderEpoch, o.Metadata, o.Time)
		}
	}
}

func (m *machine) dumpProducers(b *strings.Builder) {
	m.must(m.store.Scan([]byte{prefixProducer}, []byte{prefixProducer + 1}, func(k, v []byte) bool {
		p, err := decodeProducer(v)
		m.must(err)
		q := core.QueueID(be(k[1:9]))
		fmt.Fprintf(b, "producer %d on %s epoch=%d time=%d", be(k[9:17]), m.queueName(q), p.epoch, p.time)
		for _, seq := range p.seqs[:p.n] {
			fmt.Fprintf(b, " %d-%d@%d", seq.first, seq.last, seq.offset)
		}
		b.WriteByte('\n')
		return true
	}))
}

func (m *machine) dumpDoomed(b *strings.Builder) {
	m.must(m.store.Scan([]byte{prefixDoomed}, []byte{prefixDoomed + 1}, func(k, v []byte) bool {
		r, err := decodeDoomed(k, v)
		m.must(err)
		fmt.Fprintf(b, "doomed queues %d to %d", r.first, r.end-1)
		for q := r.first; q < r.end; q++ {
			h, ok, err := m.store.Queue(q)
			m.must(err)
			if ok {
				fmt.Fprintf(b, ", %d with %d batches", q, h.Runs)
			}
		}
		b.WriteByte('\n')
		return true
	}))
}

func be(b []byte) (v uint64) {
	for _, c := range b {
		v = v<<8 | uint64(c)
	}
	return v
}

func (m *machine) must(err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
}

func (m *machine) queueName(q core.QueueID) string {
	t, p, ok := m.state.TopicOfQueue(q)
	if !ok {
		return fmt.Sprintf("queue %d", q)
	}
	return fmt.Sprintf("%s/%d", t.Name, p)
}

func sortedPairs(m map[string]string) []string {
	pairs := make([]string, 0, len(m))
	for k, v := range m {
		pairs = append(pairs, k+"="+v)
	}
	slices.Sort(pairs)
	return pairs
}

// kvBytes is the whole KV space, to compare.
func (m *machine) kvBytes() []byte {
	var b bytes.Buffer
	m.must(m.store.Scan([]byte{0}, nil, func(k, v []byte) bool {
		fmt.Fprintf(&b, "%x = %x\n", k, v)
		return true
	}))
	return b.Bytes()
}
