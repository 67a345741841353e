package state

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"polylog/core"
)

// TestScripts runs testdata/*.txt. Each command but these proposes what its name
// says, in an entry of its own, and prints the result:
//
//	clock MS          the time of the entries that follow
//	term N            their term
//	dump              the state in words
//	checkpoint        write a checkpoint
//	old-cluster       begin at feature level 1, instead of the newest
//	crash             cut the power, reopen, replay; the state must be the same
//
// A partition is written topic/number. -rewrite writes the answers anew.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		if strings.Contains(path, "fuzz") {
			return
		}
		s := &script{machine: newMachine(t), log: newEntries()}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			s.machine.t, s.d = t, d
			return s.run()
		})
		s.machine.t = t
	})
}

type script struct {
	*machine
	log *entries
	d   *datadriven.TestData
}

func (s *script) run() string {
	switch s.d.Cmd {
	case "clock":
		s.log.time = s.number(s.first())
		return ""
	case "term":
		s.log.term = core.Term(s.number(s.first()))
		return ""
	case "old-cluster":
		s.level = 1
		s.crash(nil)
		return ""
	case "dump":
		return s.dump()
	case "checkpoint":
		s.checkpoint()
		return fmt.Sprintf("at %d\n", s.store.Durable())
	case "crash":
		hash, kv := s.hash(), s.kvBytes()
		s.crash(s.log.all)
		if after := s.hash(); after != hash {
			return fmt.Sprintf("the state changed\nwas:\n%sis:\n%s", kv, s.kvBytes())
		}
		if !bytes.Equal(kv, s.kvBytes()) {
			return "equal hashes of different states"
		}
		return "the same state\n"
	case "raw":
		data, err := hex.DecodeString(strings.Join(strings.Fields(s.d.Input), ""))
		s.must(err)
		results := s.state.Apply(s.log.raw(data))[0]
		if s.fatal != nil {
			return fmt.Sprintf("fatal: %v\n", s.fatal)
		}
		return s.results(results, nil)
	}
	cmd, show := s.command()
	return s.results(s.state.Apply(s.log.take(cmd))[0], show)
}

// results prints results; show, where there is one, what is in a body.
func (s *script) results(rs []core.Result, show func(core.Result) string) string {
	var b strings.Builder
	for _, r := range rs {
		switch {
		case r.Err != nil:
			fmt.Fprintf(&b, "%s: %s\n", r.Err.Kind.Error(), r.Err.Msg)
		case show != nil:
			fmt.Fprintf(&b, "ok%s\n", show(r))
		default:
			b.WriteString("ok\n")
		}
	}
	return b.String()
}

// command is the script's line as a command of the log, and how to read the body of
// its result.
func (s *script) command() (core.Command, func(core.Result) string) {
	name := core.TopicName(s.first())
	switch s.d.Cmd {
	case "append":
		count, ms, p := 1, s.log.time, core.Nobody
		if v, ok := s.option("producer"); ok { // id,epoch,sequence
			f := strings.Split(v, ",")
			p = core.Producer{ID: s.number(f[0]), Epoch: int16(s.number(f[1])), Sequence: int32(s.number(f[2]))}
		}
		if v, ok := s.option("count"); ok {
			count = int(s.number(v))
		}
		if v, ok := s.option("time"); ok {
			ms = s.number(v)
		}
		return AppendCommand(s.queue(s.first()), batch(s.t, count, ms, p)), func(r core.Result) string {
			return fmt.Sprintf(" offset=%d start=%d", r.Offset, r.Start)
		}
	case "create-topic":
		c := CreateTopic{Name: name, Partitions: 1, Overrides: map[string]string{}}
		for _, ch := range s.changes() {
			c.Overrides[ch.Key] = ch.Value
		}
		if v, ok := s.option("partitions"); ok {
			c.Partitions = int(s.number(v))
		}
		_, c.Internal = s.option("internal")
		return c.Command(), func(r core.Result) string {
			id, err := DecodeTopicID(r.Body)
			s.must(err)
			return " id=" + id.String()
		}
	case "delete-topic":
		c := DeleteTopic{Name: name, ID: s.id(name)}
		return c.Command(), nil
	case "create-partitions":
		total, _ := s.option("total")
		c := CreatePartitions{Name: name, ID: s.id(name), Total: int(s.number(total))}
		return c.Command(), nil
	case "alter-topic":
		c := AlterTopicConfig{Name: name, ID: s.id(name), Changes: s.changes()}
		_, c.Replace = s.option("replace")
		return c.Command(), nil
	case "alter-broker":
		c := AlterBrokerConfig{Changes: s.changes()}
		_, c.Replace = s.option("replace")
		return c.Command(), nil
	case "allocate-producer-ids":
		c := AllocateProducerIDs{Count: int(s.number(s.first()))}
		return c.Command(), func(r core.Result) string {
			first, err := DecodeProducerIDs(r.Body)
			s.must(err)
			return fmt.Sprintf(" from %d", first)
		}
	case "digest":
		c := Digest{}
		return c.Command(), func(r core.Result) string {
			return fmt.Sprintf(" of entry %d: %x", r.Offset, s.digests[core.LogIndex(r.Offset)])
		}
	case "sweep":
		c := Sweep{Work: int(s.number(s.first()))}
		return c.Command(), func(r core.Result) string {
			left, err := DecodeSwept(r.Body)
			s.must(err)
			return fmt.Sprintf(" %d queues left", left)
		}
	case "trim":
		c := TrimQueues{}
		for _, f := range s.lines() {
			c.Trims = append(c.Trims, Trim{s.queue(f[0]), core.Offset(s.number(f[1]))})
		}
		return c.Command(), func(r core.Result) string {
			rs, err := DecodeTrimResults(r.Body)
			s.must(err)
			var b strings.Builder
			for _, tr := range rs {
				fmt.Fprintf(&b, "\n  %s, start=%d", tr.Kind.Error(), tr.Start)
			}
			return b.String()
		}
	}
	return s.memberCommand()
}

func (s *script) memberCommand() (core.Command, func(core.Result) string) {
	switch s.d.Cmd {
	case "announce": // ID instance=… addr=… version=… level=…; endpoints as changes
		c := Announce{Member{ID: s.first(), Endpoints: map[string]string{}}}
		c.Instance, _ = s.option("instance")
		c.Addr, _ = s.option("addr")
		c.Version, _ = s.option("version")
		if v, ok := s.option("level"); ok {
			c.MaxLevel = int(s.number(v))
		}
		for _, e := range s.changes() {
			c.Endpoints[e.Key] = e.Value
		}
		return c.Command(), nil
	case "set-level":
		c := SetFeatureLevel{Level: int(s.number(s.first()))}
		return c.Command(), nil
	case "forget":
		c := ForgetMember{ID: s.first()}
		return c.Command(), nil
	case "note": // ID held=… away=…
		now := Sighting{ID: s.first()}
		if v, ok := s.option("held"); ok {
			now.Held = core.LogIndex(s.number(v))
		}
		_, now.Away = s.option("away")
		c := NoteMembers{[]Sighting{now}}
		return c.Command(), nil
	}
	return s.leaseCommand()
}

func (s *script) groupCommand() (core.Command, func(core.Result) string) {
	group := s.first()
	kinds := func(r core.Result) string {
		var b strings.Builder
		for _, k := range DecodeKinds(r.Body) {
			fmt.Fprintf(&b, "\n  %s", k.Error())
		}
		return b.String()
	}
	switch s.d.Cmd {
	case "commit":
		c := CommitOffsets{Group: group}
		c.ProtocolType, _ = s.option("type")
		for _, f := range s.lines() { // partition offset [epoch [metadata]]
			o := OffsetCommit{Queue: s.queue(f[0]), Offset: core.Offset(s.number(f[1])), LeaderEpoch: -1}
			if len(f) > 2 {
				o.LeaderEpoch = int32(s.number(f[2]))
			}
			if len(f) > 3 {
				o.Metadata = f[3]
			}
			c.Offsets = append(c.Offsets, o)
		}
		return c.Command(), kinds
	case "delete-offsets":
		c := DeleteOffsets{Group: group}
		for _, f := range s.lines() {
			c.Queues = append(c.Queues, s.queue(f[0]))
		}
		return c.Command(), kinds
	case "delete-group":
		c := DeleteGroup{Group: group}
		return c.Command(), nil
	case "expire":
		c := Expire{}
		if v, ok := s.option("producer-age"); ok {
			c.ProducerAge = s.number(v)
			refs, _, err := IdleProducers(s.store, 1<<62, nil, 1000) // all of them
			s.must(err)
			c.Producers = refs
		}
		if v, ok := s.option("offset-age"); ok {
			c.OffsetAge = s.number(v)
			s.must(ReadGroups(s.store, func(g Group) bool { c.Groups = append(c.Groups, g.Name); return true }))
		}
		return c.Command(), func(r core.Result) string {
			producers, offsets, err := DecodeExpired(r.Body)
			s.must(err)
			return fmt.Sprintf(" %d producers, %d offsets", producers, offsets)
		}
	}
	return s.queueCommand()
}

// first is the first word after the command.
func (s *script) first() string {
	for _, a := range s.d.CmdArgs {
		if len(a.Vals) == 0 {
			return a.Key
		}
	}
	return ""
}

func (s *script) option(name string) (string, bool) {
	for _, a := range s.d.CmdArgs {
		if a.Key == name {
			return strings.Join(a.Vals, ","), true
		}
	}
	return "", false
}

// changes are the input's lines: key=value, or -key to delete it.
func (s *script) changes() []ConfigChange {
	var cs []ConfigChange
	for _, f := range s.lines() {
		if key, ok := strings.CutPrefix(f[0], "-"); ok {
			cs = append(cs, ConfigChange{Key: key, Delete: true})
			continue
		}
		k, v, _ := strings.Cut(f[0], "=")
		cs = append(cs, ConfigChange{Key: k, Value: v})
	}
	return cs
}

func (s *script) lines() (fields [][]string) {
	for line := range strings.SplitSeq(s.d.Input, "\n") {
		if f := strings.Fields(line); len(f) > 0 {
			fields = append(fields, f)
		}
	}
	return fields
}

func (s *script) number(v string) int64 {
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil {
		s.t.Fatalf("%s: %v", s.d.Pos, err)
	}
	return n
}

// queue is a partition's queue; 999 for one that does not exist. @name is a named queue, a
// number alone the queue itself.
func (s *script) queue(partition string) core.QueueID {
	if name, ok := strings.CutPrefix(partition, "@"); ok {
		if q, err := ReadQueue(s.store, scriptName(name)); err == nil && q != nil {
			return q.ID
		}
		return 999
	}
	if n, err := strconv.Atoi(partition); err == nil {
		return core.QueueID(n)
	}
	name, number, _ := strings.Cut(partition, "/")
	t, ok := s.state.Topic(core.TopicName(name))
	if n, err := strconv.Atoi(number); ok && err == nil && n < len(t.Queues) {
		return t.Queues[n]
	}
	return 999
}

func (s *script) id(n core.Name) core.TopicID {
	if t, ok := s.state.Topic(n); ok {
		return t.ID
	}
	return core.TopicID{}
}
