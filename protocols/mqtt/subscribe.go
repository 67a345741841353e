package mqtt

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/mochi-mqtt/server/v2/packets"

	"polylog/core"
	"polylog/core/topicfilter"
	"polylog/router"
)

// subscription is what a session wants of the names that a filter matches. It does not change once it
// was added to the subscriptions.
type subscription struct {
	session           *session
	filter            string
	qos               byte
	noLocal           bool
	retainAsPublished bool
	id                int           // subscription identifier; 0: none
	share             string        // name of the group that shares it; empty: none does
	feed              *feed         // where its messages of QoS 1 and 2 come from; nil: the apply stream
	from              core.LogIndex // what was appended up to there is not for it; 0: add says it
}

// subscriptions are those of the clients that are connected here.
type subscriptions struct {
	mu   sync.RWMutex
	tree topicfilter.Tree[*subscription] // guarded by mu
	sys  atomic.Int64                    // those that are for $SYS
}

// add has a subscription get what is applied from now on: nothing that the fan-out has not come to
// yet passes it by. applied tells how far that is.
func (s *subscriptions) add(sub *subscription, applied func() core.LogIndex) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if sub.from == 0 {
		sub.from = applied()
	}
	s.tree.Add(sub.filter, sub)
	if sub.ofSys() {
		s.sys.Add(1)
	}
}

func (s *subscriptions) remove(sub *subscription) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tree.Remove(sub.filter, sub) && sub.ofSys() {
		s.sys.Add(-1)
	}
}

// ofSys reports whether it is for messages under $SYS, and for no others.
func (sub *subscription) ofSys() bool { return strings.HasPrefix(sub.filter, sysPrefix) }

func (s *subscriptions) len() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.tree.Len()
}

// any reports whether there is a subscription for what is stored.
func (s *subscriptions) any() bool { return int64(s.len()) > s.sys.Load() }

// maxSubscriptions bounds those of one session. It is one below the log's own bound, which counts a subscription
// that is changed as one more.
const maxSubscriptions = 9_999

// sharePrefix begins the filters of shared subscriptions (section 4.8.2).
const sharePrefix = "$share/"

// subscribe is a SUBSCRIBE (section 3.8).
func (c *conn) subscribe(pk *packets.Packet) error {
	switch {
	case pk.PacketID == 0:
		return packets.ErrProtocolViolationNoPacketID
	case len(pk.Filters) == 0:
		return packets.ErrProtocolViolationNoFilters // MQTT-3.8.3-2
	case len(pk.Properties.SubscriptionIdentifier) > 1:
		return packets.ErrProtocolViolation // section 3.8.2.1.2
	}
	id := 0
	if ids := pk.Properties.SubscriptionIdentifier; len(ids) == 1 {
		if id = ids[0]; id == 0 {
			return packets.ErrProtocolViolation
		}
	}
	codes := make([]byte, len(pk.Filters))
	for i := range pk.Filters {
		f := &pk.Filters[i]
		if f.RetainHandling > 2 || f.NoLocal && strings.HasPrefix(f.Filter, sharePrefix) {
			return packets.ErrProtocolViolation // MQTT-3.8.3-4
		}
		code, err := c.subscribeTo(f, id)
		if passing(err) { // no reason of SUBACK's has the client try again
			return reasonOf(err)
		}
		if c.version < 5 && code.Code >= packets.ErrUnspecifiedError.Code {
			code = packets.ErrUnspecifiedError // MQTT 3.1.1, section 3.9.3
		}
		codes[i] = code.Code
	}
	defer c.session.refill() // retained messages come after SUBACK
	c.out.put(func(b []byte) []byte {
		return appendPacket(b, &packets.Packet{
			FixedHeader: packets.FixedHeader{Type: packets.Suback}, ProtocolVersion: c.version,
			PacketID: pk.PacketID, ReasonCodes: codes,
		})
	})
	return nil
}

// subscribeTo adds or replaces a subscription and says what SUBACK is to say, and why.
func (c *conn) subscribeTo(f *packets.Subscription, id int) (packets.Code, error) {
	share, filter, ok := splitShare(f.Filter)
	if !ok || topicfilter.CheckFilter(filter) != nil {
		return packets.ErrTopicFilterInvalid, nil
	}
	if c.srv.denies(f.Filter) {
		return packets.ErrUnspecifiedError, nil // whoever denies it need not say so
	}
	if err := c.srv.authorizeFilter(c.principal, filter); err != nil {
		return refusal(err), err
	}
	s := c.session
	sub := &subscription{
		session: s, filter: strings.Clone(filter), share: strings.Clone(share), qos: f.Qos,
		noLocal: f.NoLocal, retainAsPublished: f.RetainAsPublished, id: id,
	}
	s.mu.Lock()
	old := s.subs[sub.key()]
	going := s.owedLocked(old)
	full := old == nil && len(s.subs) >= maxSubscriptions
	s.mu.Unlock()
	if full {
		return packets.ErrQuotaExceeded, nil
	}
	walks := share == "" && retains(f, old)
	owed := s.keeps && f.Qos > 0 && (going != nil || walks && s.anyRetained(filter))
	at, err := c.store(sub, owed)
	if err != nil {
		return refusal(err), err
	}
	if old != nil {
		sub.from = old.from // nothing is missed (MQTT-3.8.4-3)
	}
	if err := s.replace(old, sub, &at); err != nil {
		return refusal(err), err
	}
	// What is retained behind this comes as what is published does.
	since := sub.from
	if old != nil || sub.feed != nil {
		since = c.srv.router.Applied() // the subscription was there before that
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if owed && !walks {
		going.sub = sub // it goes on
	}
	s.walks = slices.DeleteFunc(s.walks, func(w *retainedWalk) bool { return w.sub == old })
	if walks {
		s.walkLocked(&retainedWalk{sub: sub, until: since, owed: owed})
	}
	if s.subs == nil {
		s.subs = map[string]*subscription{}
	}
	s.subs[sub.key()] = sub
	return packets.QosCodes[f.Qos], nil
}

// replace has a subscription's messages come, instead of old's where there is one.
func (s *session) replace(old, sub *subscription, at *router.MQTTSubscription) error {
	if old == nil || !s.serves(old.feed, at) {
		if err := s.attach(sub, at); err != nil {
			return err
		}
		if old != nil {
			s.detach(old)
		}
		return nil
	}
	sub.feed = old.feed // what is on its way stays
	sub.feed.sub.Store(sub)
	if sub.share == "" {
		s.srv.subs.add(sub, s.srv.router.Applied)
		s.srv.subs.remove(old)
	}
	return nil
}

// serves reports whether a feed, which may be nil, is what brings a subscription's messages.
func (s *session) serves(f *feed, at *router.MQTTSubscription) bool {
	if f == nil || f.queue != at.Queue || f.group != at.Group {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return !f.left
}

// key is the filter as the client says it.
func (sub *subscription) key() string {
	if sub.share == "" {
		return sub.filter
	}
	return sharePrefix + sub.share + "/" + sub.filter
}

// denies reports whether nobody may subscribe to a filter.
func (s *Server) denies(filter string) bool { return slices.Contains(s.opts.DenySubscribe, filter) }

// unsubscribe is an UNSUBSCRIBE (section 3.10).
func (c *conn) unsubscribe(pk *packets.Packet) error {
	switch {
	case pk.PacketID == 0:
		return packets.ErrProtocolViolationNoPacketID
	case len(pk.Filters) == 0:
		return packets.ErrProtocolViolationNoFilters // MQTT-3.10.3-2
	}
	codes := make([]byte, len(pk.Filters))
	s := c.session
	for i := range pk.Filters {
		filter := pk.Filters[i].Filter
		s.mu.Lock()
		sub := s.subs[filter]
		delete(s.subs, filter)
		s.walks = slices.DeleteFunc(s.walks, func(w *retainedWalk) bool { return w.sub == sub })
		s.mu.Unlock()
		switch {
		case sub != nil:
			s.detach(sub)
			err := c.unstore(sub)
			if passing(err) {
				return reasonOf(err)
			}
			codes[i] = refusal(err).Code
		case topicfilter.CheckFilter(filter) != nil:
			codes[i] = packets.ErrTopicFilterInvalid.Code
		default:
			codes[i] = packets.CodeNoSubscriptionExisted.Code
		}
	}
	c.out.put(func(b []byte) []byte {
		return appendPacket(b, &packets.Packet{
			FixedHeader: packets.FixedHeader{Type: packets.Unsuback}, ProtocolVersion: c.version,
			PacketID: pk.PacketID, ReasonCodes: codes,
		})
	})
	return nil
}
