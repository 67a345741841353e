package httpd

import (
	"context"
	"sync"
	"time"

	"polylog/core"
	"polylog/core/message"
	"polylog/protocols/http/front"
	"polylog/protocols/http/subscription"
	"polylog/router"
)

// pullSpec is the body of :pull.
type pullSpec struct {
	Max           int   `json:"max"`           // messages; 10 where it is left out
	WaitMs        int64 `json:"waitMs"`        // for the first one; 0: not at all
	AckDeadlineMs int64 `json:"ackDeadlineMs"` // the subscription's where it is left out
}

const (
	defaultPull = 10
	maxPull     = 1000
	maxWait     = 30_000   // ms
	pullBytes   = 16 << 20 // of values in an answer, about
	// linger is how long a pull that has something waits for the rest of what is there.
	linger = 5 * time.Millisecond
	// peekEvery is how often a waiting pull looks whether its client is still there.
	peekEvery = time.Second
)

// pulledJSON is a delivery.
type pulledJSON struct {
	Receipt       string `json:"receipt"`
	DeliveryCount int    `json:"deliveryCount"`         // this one counted
	Redelivered   bool   `json:"redelivered,omitempty"` // it may have been delivered before
	outgoingJSON
}

// pull gives out messages under leases. What its client cannot have got, because it is gone,
// goes back before anybody waits for its lease.
func pull(c *call) error {
	spec := pullSpec{Max: defaultPull}
	if err := c.definition(&spec); err != nil {
		return err
	}
	src, err := c.source()
	if err != nil {
		return err
	}
	if spec.AckDeadlineMs == 0 {
		spec.AckDeadlineMs = src.options.AckDeadlineMs
	}
	switch {
	case spec.Max < 1 || spec.Max > maxPull:
		return invalid("max is %d, want 1 to %d", spec.Max, maxPull)
	case spec.WaitMs < 0 || spec.WaitMs > maxWait:
		return invalid("waitMs is %d, want 0 to %d", spec.WaitMs, maxWait)
	case spec.AckDeadlineMs < subscription.MinDeadline || spec.AckDeadlineMs > subscription.MaxDeadline:
		return invalid("ackDeadlineMs is %d, want %d to %d", spec.AckDeadlineMs, subscription.MinDeadline, subscription.MaxDeadline)
	}
	p := puller{call: c, src: src, spec: &spec, wake: make(chan struct{}, 1)}
	defer p.close()
	if err := p.consume(); err != nil {
		return err
	}
	if err := p.run(); err != nil && len(p.got) == 0 {
		return err
	}
	if front.Gone(c.Conn()) {
		p.giveBack()
		return core.E(core.Closed, "the client is gone")
	}
	answer := struct {
		Messages []pulledJSON `json:"messages"`
	}{make([]pulledJSON, len(p.got))}
	for i := range p.got {
		answer.Messages[i] = *p.jsonOf(&p.got[i])
	}
	return c.answer(200, answer)
}

func (p *puller) jsonOf(g *pulled) *pulledJSON {
	rc := receipt{g.partition, g.Attempts, g.Receipt}
	j := &pulledJSON{
		Receipt: rc.encode(p.src.group), DeliveryCount: g.Attempts + 1, Redelivered: g.Redelivered,
		outgoingJSON: outgoing(int32(g.partition), &g.Record, 0),
	}
	j.Deaths = jsonOfDeaths(g.Deaths)
	return j
}

// puller is one pull at work: a consumer on each partition, with credit for no more than is
// wanted in all, but for one a partition.
type puller struct {
	*call
	src   *source
	spec  *pullSpec
	wake  chan struct{}
	parts []pullPart
	got   []pulled
	bytes int
}

type pullPart struct {
	*router.Consumer
	owed int // deliveries that it may still get
}

type pulled struct {
	partition int
	router.Delivery
}

// consume begins to consume, partitions that are new too. After an error, close is to be called
// all the same.
func (p *puller) consume() error {
	err := p.open()
	if core.KindOf(err) == core.NotFound && p.src.ensure != nil { // a partition that is new
		if err = p.src.ensure(p.call.ctx); err == nil {
			err = p.open()
		}
	}
	return err
}

// open begins to consume the partitions that are not consumed yet. After an error, close is to be
// called too.
func (p *puller) open() error {
	for len(p.parts) < len(p.src.queues) {
		p.parts = append(p.parts, pullPart{})
	}
	errs := make([]error, len(p.parts))
	share := max(p.spec.Max/len(p.parts), 1)
	var all sync.WaitGroup
	for i, q := range p.src.queues {
		if p.parts[i].Consumer != nil {
			continue
		}
		all.Go(func() {
			if !p.src.single { // there a keeper would be the one that gets messages
				p.keep(p.call.ctx, p.principal, q, p.src.group)
			}
			p.parts[i].owed = share
			p.parts[i].Consumer, errs[i] = p.router.Consume(p.call.ctx, p.principal, router.ConsumeSpec{
				Queue: q, Group: p.src.group, Credit: int64(share), Buffer: maxPull,
				Lease: time.Duration(p.spec.AckDeadlineMs) * time.Millisecond, Wake: p.notify,
			})
		})
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func (p *puller) notify() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// close ends the consumers: what they have not been asked for goes back.
func (p *puller) close() {
	for _, one := range p.parts {
		if one.Consumer != nil {
			one.Close()
		}
	}
}

// run waits for messages: until the first ones are there, and what is there with them.
func (p *puller) run() error {
	deadline := time.NewTimer(p.firstWait())
	defer deadline.Stop()
	peek := time.NewTicker(peekEvery)
	defer peek.Stop()
	lingers := false
	for {
		more, err := p.take()
		if err != nil {
			return err
		}
		switch {
		case len(p.got) >= p.spec.Max, p.bytes >= pullBytes, len(p.got) > 0 && !more:
			return nil
		case len(p.got) > 0 && !lingers:
			lingers = true
			deadline.Reset(linger)
		}
		select {
		case <-p.wake:
		case <-deadline.C:
			return nil
		case <-p.api.gate.Context().Done():
			return core.E(core.Closed, "this node is shutting down")
		case <-peek.C:
			if front.Gone(p.Conn()) {
				return core.E(core.Closed, "the client is gone")
			}
		}
	}
}

// firstWait is how long to wait for the first message. Without a wait it is as long as one
// that is there may take to come from the leader.
func (p *puller) firstWait() time.Duration {
	return max(time.Duration(p.spec.WaitMs)*time.Millisecond, noWait)
}

const noWait = 100 * time.Millisecond

// take takes what is there. It is true where more may come at once, since a partition has
// given all that it was asked for. What came was published after all that this node has applied: so who may
// not read any more gets nothing that came later.
func (p *puller) take() (more bool, err error) {
	if err := p.src.may(); err != nil {
		return false, err
	}
	var ds []router.Delivery
	for i := range p.parts {
		part := &p.parts[i]
		room := p.spec.Max - len(p.got)
		if room <= 0 || p.bytes >= pullBytes {
			break
		}
		if ds, err = part.Take(ds[:0], room); err != nil {
			return false, err
		}
		part.owed -= len(ds)
		for _, d := range ds {
			if p.wants(part.Consumer, &d) {
				p.got = append(p.got, pulled{i, d})
				p.bytes += len(d.Record.Value)
			}
		}
		if room = p.spec.Max - len(p.got); part.owed <= 0 && room > 0 {
			part.owed = room
			part.Grant(int64(room))
			more = true
		}
	}
	return more, nil
}

// wants reports whether a delivery is for the client. Else it is settled: a message that the
// filter does not want or that has expired is done, one that is not due yet rests until then.
func (p *puller) wants(from *router.Consumer, d *router.Delivery) bool {
	now := p.srv.opts.now()
	due := message.DeliverAt(&d.Record)
	expires := message.ExpiresAt(&d.Record)
	switch {
	case expires > 0 && expires <= now, !p.src.filter.Wants(&d.Record):
		from.Settle(router.Done, 0, []router.Receipt{d.Receipt}, nil)
	case due > now:
		from.Settle(router.Release, time.Duration(due-now)*time.Millisecond, []router.Receipt{d.Receipt}, nil)
	default:
		return true
	}
	return false
}

// giveBack releases what was taken.
func (p *puller) giveBack() {
	for _, g := range p.got {
		p.parts[g.partition].Settle(router.Release, 0, []router.Receipt{g.Receipt}, nil)
	}
}

// receiptsSpec is the body of :ack, :nack and :extend.
type receiptsSpec struct {
	Receipts []string `json:"receipts"`
	// Of :nack: when the message is delivered again, instead of when the subscription says;
	// whether it is dead; whether this was no failure.
	DelayMs    *int64 `json:"delayMs"`
	DeadLetter bool   `json:"deadLetter"`
	Uncounted  bool   `json:"uncounted"`
	// Of :extend: the lease from now on; the subscription's where it is left out.
	AckDeadlineMs int64 `json:"ackDeadlineMs"`
}

// settleGroup is the receipts of one partition that are settled alike.
type settleGroup struct {
	partition int
	after     time.Duration
}

// restOf is how long a message rests whose receipt is settled.
type restOf func(*receiptsSpec, *source, *receipt) (time.Duration, error)

func noRest(*receiptsSpec, *source, *receipt) (time.Duration, error) { return 0, nil }

// receipts reads the body, for the subscription or queue of the path.
func (c *call) receipts() (spec receiptsSpec, src *source, err error) {
	b, err := c.body(c.srv.front.MaxBody())
	if err != nil {
		return spec, nil, err
	}
	if front.MoreThan(b, maxMessages+8, 2) { // the other fields have commas, too
		return spec, nil, errMessages
	}
	if err = decodeJSON(b, &spec); err != nil {
		return spec, nil, err
	}
	src, err = c.source()
	return spec, src, err
}

// sort puts receipts that are settled alike together. results has what is wrong with some.
func (s *receiptsSpec) sort(src *source, rest restOf) (groups map[settleGroup][]int, rs []receipt, results []resultJSON, err error) {
	if n := len(s.Receipts); n == 0 || n > maxMessages {
		return nil, nil, nil, invalid("%d receipts, want 1 to %d", n, maxMessages)
	}
	groups = map[settleGroup][]int{}
	rs = make([]receipt, len(s.Receipts))
	results = make([]resultJSON, len(rs))
	for i, text := range s.Receipts {
		one, err := decodeReceipt(text, src.group, len(src.queues))
		if err != nil {
			results[i] = failure(err)
			continue
		}
		rs[i] = one
		wait, err := rest(s, src, &one)
		if err != nil {
			return nil, nil, nil, err
		}
		g := settleGroup{one.partition, wait}
		groups[g] = append(groups[g], i)
	}
	return groups, rs, results, nil
}

// outcomes writes what became of some receipts.
func outcomes(results []resultJSON, at []int, kinds []core.Kind, err error) {
	for i, n := range at {
		switch {
		case err != nil:
			results[n] = failure(err)
		case i < len(kinds) && kinds[i] == core.Conflict:
			results[n] = failure(errStale)
		case i < len(kinds) && kinds[i] != core.OK:
			results[n] = failure(kinds[i])
		default:
			results[n] = resultJSON{Status: 200}
		}
	}
}

func pick(rs []receipt, at []int) []router.Receipt {
	picked := make([]router.Receipt, len(at))
	for i, n := range at {
		picked[i] = rs[n].Receipt
	}
	return picked
}

// settling is a way to settle.
type settling struct {
	outcome func(*receiptsSpec) router.Outcome
	rest    restOf
}

// acking says that messages are done, nacking that they failed.
var (
	acking  = settling{func(*receiptsSpec) router.Outcome { return router.Done }, noRest}
	nacking = settling{func(s *receiptsSpec) router.Outcome {
		switch {
		case s.DeadLetter:
			return router.Reject
		case s.Uncounted:
			return router.Release
		}
		return router.Fail
	}, func(s *receiptsSpec, src *source, r *receipt) (time.Duration, error) {
		switch {
		case s.DelayMs == nil:
			return src.options.Retry.After(r.attempts), nil
		case *s.DelayMs < 0 || *s.DelayMs > subscription.MaxRetry:
			return 0, invalid("delayMs is %d, want 0 to %d", *s.DelayMs, subscription.MaxRetry)
		}
		return time.Duration(*s.DelayMs) * time.Millisecond, nil
	}}
)

// settle settles receipts, and returns when that is committed.
func (c *call) settle(ctx context.Context, spec *receiptsSpec, src *source, how settling) ([]resultJSON, error) {
	groups, rs, results, err := spec.sort(src, how.rest)
	if err != nil {
		return nil, err
	}
	type settled struct {
		at    []int
		kinds []core.Kind
		err   error
	}
	done := make(chan settled, len(groups))
	for g, at := range groups {
		c.router.Settle(c.principal, src.queues[g.partition], src.group, how.outcome(spec), g.after, pick(rs, at), func(kinds []core.Kind, err error) {
			done <- settled{at, kinds, err}
		})
	}
	for range groups {
		select {
		case s := <-done:
			outcomes(results, s.at, s.kinds, s.err)
		case <-ctx.Done():
			return nil, core.E(core.Uncertain, "it was not confirmed in %s", front.CallTimeout)
		}
	}
	return results, nil
}

func (c *call) settleBody(how settling) error {
	spec, src, err := c.receipts()
	if err != nil {
		return err
	}
	results, err := c.settle(c.ctx, &spec, src, how)
	if err != nil {
		return err
	}
	return c.answerEach(results)
}

func ack(c *call) error { return c.settleBody(acking) }

func nack(c *call) error { return c.settleBody(nacking) }

// extend moves the ends of leases.
func extend(c *call) error {
	spec, src, err := c.receipts()
	if err != nil {
		return err
	}
	groups, rs, results, err := spec.sort(src, noRest)
	if err != nil {
		return err
	}
	lease := spec.AckDeadlineMs
	if lease == 0 {
		lease = src.options.AckDeadlineMs
	}
	if lease < subscription.MinDeadline || lease > subscription.MaxDeadline {
		return invalid("ackDeadlineMs is %d, want %d to %d", lease, subscription.MinDeadline, subscription.MaxDeadline)
	}
	for g, at := range groups {
		kinds, err := c.router.Extend(c.ctx, c.principal, src.queues[g.partition], src.group, time.Duration(lease)*time.Millisecond, pick(rs, at))
		outcomes(results, at, kinds, err)
	}
	return c.answerEach(results)
}
