package state

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"polylog/core"
	"polylog/core/ackset"
	"polylog/core/message"
)

// queueCommand has the commands about named queues and groups with acknowledgements:
//
//	declare NAME [limit=N] [dead=NAME] [group-only] [single] [kind=quorum] [durable] [auto-delete]
//	    [owner=LEASE], and the limits as a policy has them
//	delete-queue @NAME [if-empty]
//	ack-group QUEUE NAME [from=start|end|N] [limit=N] [dead=NAME]
//	drop-ack-group QUEUE NAME
//	settle [term=N]        lines: QUEUE GROUP mark=N done=A-B fail=O fail=O@MS! reject=O
//	    expired=O overflow=O letter=O,EXCHANGE,KEY,… use=began|ended aloft=N,BYTES
//	delete-unused @QUEUE due=MS
//	delete-owned LEASE limit=N
//	tick N
//
// The queue's own group is written "-"; "!" says that a failure counts.
func (s *script) queueCommand() (core.Command, func(core.Result) string) {
	word := func(n int) string {
		if n < len(s.d.CmdArgs) {
			return s.d.CmdArgs[n].Key
		}
		return ""
	}
	switch s.d.Cmd {
	case "declare":
		c := DeclareQueue{Name: scriptName(s.first()), Config: QueueConfig{AckConfig: s.ackConfig(), Limits: s.limits()}}
		_, c.Config.GroupOnly = s.option("group-only")
		_, c.Config.Durable = s.option("durable")
		_, c.Config.AutoDelete = s.option("auto-delete")
		c.Config.Owner, _ = s.option("owner")
		if v, _ := s.option("kind"); v == "quorum" {
			c.Config.Kind = Quorum
		}
		if v, ok := s.option("max-priority"); ok {
			c.Config.Limits.MaxPriority = int(s.number(v))
		}
		return c.Command(), func(r core.Result) string {
			id, created, err := DecodeDeclared(r.Body)
			s.must(err)
			return fmt.Sprintf(" queue %d created=%v", id, created)
		}
	case "delete-queue":
		c := DeleteQueue{Queue: s.queue(s.first())}
		_, c.IfEmpty = s.option("if-empty")
		return c.Command(), func(r core.Result) string {
			n, err := DecodeCount(r.Body)
			s.must(err)
			return fmt.Sprintf(" with %d messages", n)
		}
	case "ack-group":
		c := CreateAckGroup{Queue: s.queue(word(0)), Group: group(word(1)), From: FromStart, Config: s.ackConfig()}
		switch v, ok := s.option("from"); {
		case v == "end":
			c.From = FromEnd
		case ok && v != "start":
			c.From = core.Offset(s.number(v))
		}
		return c.Command(), func(r core.Result) string { return fmt.Sprintf(" created=%v", r.Body[0] == 1) }
	case "drop-ack-group":
		c := DeleteAckGroup{Queue: s.queue(word(0)), Group: group(word(1))}
		return c.Command(), nil
	case "settle":
		return s.settleCommand()
	case "delete-unused":
		due, _ := s.option("due")
		c := DeleteUnused{Queue: s.queue(s.first()), Due: s.number(due)}
		return c.Command(), nil
	case "delete-owned":
		limit, _ := s.option("limit")
		c := DeleteOwned{Owner: s.first(), Limit: int(s.number(limit))}
		return c.Command(), s.count
	case "tick":
		c := Tick{Work: int(s.number(s.first()))}
		return c.Command(), s.count
	}
	return s.policyCommand()
}

// count shows a result that is one number.
func (s *script) count(r core.Result) string {
	n, err := DecodeCount(r.Body)
	s.must(err)
	return fmt.Sprintf(" %d", n)
}

// policyCommand has the commands about policies:
//
//	set-policy NAME [pattern=P] [priority=N] [apply-to=N] [operator] [message-ttl=MS] [expires=MS]
//	    [max-length=N] [max-length-bytes=N] [overflow=WORD] [delivery-limit=N]
//	    [dead-letter-exchange=X] [dead-letter-routing-key=K] [alternate-exchange=X]
//	delete-policy NAME [operator]
func (s *script) policyCommand() (core.Command, func(core.Result) string) {
	_, operator := s.option("operator")
	switch s.d.Cmd {
	case "set-policy":
		n := scriptName(s.first())
		c := SetPolicy{Policy{Namespace: n.Namespace, Name: n.Name, Operator: operator, Definition: s.definition()}}
		c.Policy.Pattern, _ = s.option("pattern")
		if v, ok := s.option("priority"); ok {
			c.Policy.Priority = int(s.number(v))
		}
		if v, ok := s.option("apply-to"); ok {
			c.Policy.ApplyTo = PolicyTarget(s.number(v))
		}
		return c.Command(), nil
	case "delete-policy":
		c := DeletePolicy{Namespace: core.DefaultNamespace, Name: s.first(), Operator: operator}
		return c.Command(), nil
	}
	return s.exchangeCommand()
}

// definition is a policy's definition as the command's options say it.
func (s *script) definition() (t message.Table) {
	for _, key := range slices.Sorted(maps.Keys(policyKeys)) {
		v, ok := s.option(key)
		if !ok {
			continue
		}
		if n, err := strconv.ParseInt(v, 10, 64); err == nil {
			t = append(t, message.Header{Name: key, Value: message.Int(message.KindInt64, n)})
		} else {
			t = append(t, message.Header{Name: key, Value: message.String(v)})
		}
	}
	return t
}

func (s *script) limits() QueueLimits {
	l, err := ParseLimits(s.definition())
	s.must(err)
	return l
}

// describeLimits is what is not zero of limits.
func describeLimits(l QueueLimits) string {
	var b strings.Builder
	say := func(has bool, what string, v any) {
		if has {
			fmt.Fprintf(&b, " %s=%v", what, v)
		}
	}
	say(l.HasTTL, "message-ttl", l.TTL)
	say(l.Expires > 0, "expires", l.Expires)
	say(l.HasMaxLength, "max-length", l.MaxLength)
	say(l.HasMaxBytes, "max-length-bytes", l.MaxBytes)
	say(l.Overflow != DropHead, "overflow", l.Overflow)
	say(l.MaxPriority > 0, "max-priority", l.MaxPriority)
	say(l.HasDeadLetter, "dead-letter-exchange", strconv.Quote(l.DeadLetterExchange))
	say(l.HasDeadLetterKey, "dead-letter-routing-key", strconv.Quote(l.DeadLetterKey))
	say(l.DeliveryLimit != 0, "delivery-limit", l.DeliveryLimit)
	return b.String()
}

func group(word string) string {
	if word == "-" {
		return ""
	}
	return word
}

func (s *script) ackConfig() (c AckConfig) {
	if v, ok := s.option("limit"); ok {
		c.DeliveryLimit = int(s.number(v))
	}
	if v, ok := s.option("dead"); ok {
		c.DeadLetter = core.TopicName(v)
	}
	_, c.SingleActive = s.option("single")
	return c
}

func (s *script) settleCommand() (core.Command, func(core.Result) string) {
	c := Settle{Term: s.log.term}
	if v, ok := s.option("term"); ok {
		c.Term = core.Term(s.number(v))
	}
	for _, f := range s.lines() {
		g := GroupSettle{Queue: s.queue(f[0]), Group: group(f[1])}
		for _, part := range f[2:] {
			what, v, _ := strings.Cut(part, "=")
			switch what {
			case "mark":
				g.SetMark, g.Mark = true, core.Offset(s.number(v))
			case "done":
				first, end, _ := strings.Cut(v, "-")
				g.Done = append(g.Done, ackset.Span{First: core.Offset(s.number(first)), End: core.Offset(s.number(end))})
			case "fail":
				v, counted := strings.CutSuffix(v, "!")
				o, due, ok := strings.Cut(v, "@")
				fd := FailedDelivery{Offset: core.Offset(s.number(o)), Counted: counted}
				if ok {
					fd.Due = s.number(due)
				}
				g.Failed = append(g.Failed, fd)
			case "reject":
				g.Rejected = append(g.Rejected, core.Offset(s.number(v)))
			case "expired":
				g.Expired = append(g.Expired, core.Offset(s.number(v)))
			case "overflow":
				g.Overflowed = append(g.Overflowed, core.Offset(s.number(v)))
			case "letter":
				f := strings.Split(v, ",")
				g.Letters = append(g.Letters, Letter{Offset: core.Offset(s.number(f[0])), Exchange: f[1], Keys: f[2:]})
			case "use":
				g.Use = map[string]Use{"began": UseBegan, "ended": UseEnded}[v]
			case "aloft":
				n, bytes, _ := strings.Cut(v, ",")
				g.SetAloft, g.Aloft, g.AloftBytes = true, s.number(n), s.number(bytes)
			default:
				s.t.Fatalf("%s: settle %s", s.d.Pos, part)
			}
		}
		c.Groups = append(c.Groups, g)
	}
	fates := [...]string{"again", "moved", "dropped", "settled before"}
	return c.Command(), func(r core.Result) string {
		out, err := DecodeSettled(r.Body)
		s.must(err)
		var b strings.Builder
		for _, g := range out {
			fmt.Fprintf(&b, "\n  %s, %d settled", g.Kind.Error(), g.Settled)
			for _, f := range slices.Concat(g.Failed, g.Rejected) {
				fmt.Fprintf(&b, ", %s", fates[f])
			}
		}
		return b.String()
	}
}

func (m *machine) dumpQueues(b *strings.Builder) {
	names, err := ReadQueueNames(m.store, core.DefaultNamespace, "", 1000, nil)
	m.must(err)
	for _, name := range names {
		q, err := m.state.Queue(core.TopicName(name))
		m.must(err)
		h, _, err := m.store.Queue(q.ID)
		m.must(err)
		fmt.Fprintf(b, "queue %s is %d created=%d [%d, %d)", name, q.ID, q.Created, h.Start, h.End)
		if h.Runs > 0 {
			fmt.Fprintf(b, " in %d batches", h.Runs)
		}
		b.WriteString(describeLimits(q.Effective()))
		b.WriteByte('\n')
		m.dumpAcks(b, q.ID)
		for o := h.Start; o < h.End && q.Deaths; o++ {
			hist, err := ReadHistory(m.store, q.ID, o)
			m.must(err)
			if len(hist.Keys) > 0 {
				fmt.Fprintf(b, "  %d came by exchange %q with %q\n", o, hist.Exchange, hist.Keys)
			}
			for _, d := range hist.Deaths {
				fmt.Fprintf(b, "  %d died in %s at %d, reason %d, time %d", o, d.Queue, d.Offset, d.Reason, d.Time)
				if d.Count > 1 {
					fmt.Fprintf(b, ", %d times", d.Count)
				}
				if len(d.Keys) > 0 {
					fmt.Fprintf(b, ", after exchange %q with %q", d.Exchange, d.Keys)
				}
				if d.First && len(hist.Deaths) > 1 {
					b.WriteString(", first")
				}
				b.WriteByte('\n')
			}
		}
		m.must(ScanAttributes(m.store, q.ID, h.Start, h.End, func(o core.Offset, a Attributes) bool {
			fmt.Fprintf(b, "  %d expires=%d priority=%d size=%d\n", o, a.Expires, a.Priority, a.Size)
			return true
		}))
		for _, kind := range [...]QueueTimer{HeadTimer, UnusedTimer} {
			due, ok, err := m.state.QueueTimer(kind, q.ID)
			m.must(err)
			if ok {
				fmt.Fprintf(b, "  timer %c due=%d\n", kind, due)
			}
		}
	}
	for _, t := range m.state.Topics() {
		for _, q := range t.Queues {
			m.dumpAcks(b, q)
		}
	}
}

func (m *machine) dumpAcks(b *strings.Builder, q core.QueueID) {
	groups, err := m.state.AckGroups(q)
	m.must(err)
	for _, g := range groups {
		a, err := m.state.Acks(q, g)
		m.must(err)
		fmt.Fprintf(b, "  group %q of %d: floor=%d mark=%d", g, q, a.Settled.Floor(), a.Mark)
		for sp := range a.Settled.Spans() {
			fmt.Fprintf(b, " settled=%d-%d", sp.First, sp.End)
		}
		for _, f := range a.Failed {
			fmt.Fprintf(b, " failed=%d attempts=%d due=%d", f.Offset, f.Attempts, f.Due)
		}
		b.WriteByte('\n')
	}
}

// randomQueueCommand is any command about a few named queues and their groups, and about
// groups of partitions.
func randomQueueCommand(t interface{ Fatal(...any) }, rnd *rand.Rand, s *State) core.Command {
	names := [...]string{"q", "r", "s"}
	name := core.TopicName(names[rnd.IntN(3)])
	id := core.QueueID(1 + rnd.IntN(8))
	if q, err := ReadQueue(s.store, name); err != nil {
		t.Fatal(err)
	} else if q != nil && rnd.IntN(5) > 0 {
		id = q.ID
	}
	group := [...]string{"", "", "g", "h"}[rnd.IntN(4)]
	config := AckConfig{DeliveryLimit: rnd.IntN(3), DeadLetter: core.TopicName(names[rnd.IntN(3)])}
	if rnd.IntN(3) == 0 {
		config.DeadLetter = core.Name{}
	}
	offset := func() core.Offset { return core.Offset(rnd.IntN(60)) }
	switch n := rnd.IntN(100); {
	case n < 8:
		c := DeclareQueue{Name: name, Config: QueueConfig{GroupOnly: rnd.IntN(4) == 0, AckConfig: config}}
		return c.Command()
	case n < 10:
		c := DeleteQueue{Queue: id, IfEmpty: n == 8}
		return c.Command()
	case n < 14:
		c := CreateAckGroup{Queue: id, Group: "g", From: offset() - 2, Config: config}
		return c.Command()
	case n < 16:
		c := DeleteAckGroup{Queue: id, Group: "g"}
		return c.Command()
	case n < 55:
		var bb core.BatchBuilder
		for range 1 + rnd.IntN(5) {
			bb.Add(int64(rnd.IntN(10_000)), nil, nil)
		}
		b, err := bb.Build(nil, core.BatchOptions{Producer: core.Nobody})
		if err != nil {
			t.Fatal(err)
		}
		return AppendCommand(id, b)
	}
	c := Settle{Term: core.Term(rnd.IntN(3)), Groups: make([]GroupSettle, 1+rnd.IntN(2))}
	for i := range c.Groups {
		g := GroupSettle{Queue: id, Group: group, SetMark: rnd.IntN(2) == 0, Mark: offset()}
		for range rnd.IntN(4) {
			o := offset()
			g.Done = append(g.Done, ackset.Span{First: o, End: o + core.Offset(rnd.IntN(5))})
		}
		for range rnd.IntN(3) {
			g.Failed = append(g.Failed, FailedDelivery{offset(), rnd.IntN(2) == 0, int64(rnd.IntN(2))})
		}
		if rnd.IntN(3) == 0 {
			g.Rejected = append(g.Rejected, offset())
		}
		c.Groups[i] = g
	}
	return c.Command()
}
