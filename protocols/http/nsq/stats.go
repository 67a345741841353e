package nsq

import (
	"fmt"
	"strings"

	"polylog/core"
	"polylog/protocols/http/subscription"
	"polylog/router"
)

// What /stats answers has nsqd's fields. Messages are counted by the log: since their topic was made, and not since a start.
// What has no meaning here is 0 or empty, or is left out where that would say something wrong.

// statsJSON is all of it.
type statsJSON struct {
	Version   string      `json:"version"`
	Health    string      `json:"health"`
	StartTime int64       `json:"start_time"` // s
	Topics    []topicJSON `json:"topics"`
	Producers []struct{}  `json:"producers"` // connections of NSQ's own protocol: there are none
}

type topicJSON struct {
	Name         string        `json:"topic_name"`
	Channels     []channelJSON `json:"channels"`
	Depth        int64         `json:"depth"` // what waits for a first channel
	BackendDepth int64         `json:"backend_depth"`
	Messages     int64         `json:"message_count"`
	Paused       bool          `json:"paused"`
	Latency      latencyJSON   `json:"e2e_processing_latency"`
}

type channelJSON struct {
	Name         string      `json:"channel_name"`
	Depth        int64       `json:"depth"`
	BackendDepth int64       `json:"backend_depth"`
	InFlight     int64       `json:"in_flight_count"`
	Deferred     int64       `json:"deferred_count"`
	Messages     int64       `json:"message_count"` // its topic's
	Requeued     int64       `json:"requeue_count"`
	TimedOut     int64       `json:"timeout_count"`
	ClientCount  int         `json:"client_count"`
	Clients      []struct{}  `json:"clients"` // of NSQ's own protocol
	Paused       bool        `json:"paused"`
	Latency      latencyJSON `json:"e2e_processing_latency"`
}

// latencyJSON is that of an nsqd which measures none.
type latencyJSON struct {
	Count       int       `json:"count"`
	Percentiles []float64 `json:"percentiles"`
}

// maxCounted bounds the partitions of channels that one call asks the leader for.
const maxCounted = 10_000

// stats says what topics and channels the caller may see, and what is in them; of one topic, or one channel
// of each, where args name it.
func stats(c *call) error {
	args, err := c.args()
	if err != nil {
		return err
	}
	if err := c.router.Sync(c.ctx); err != nil {
		return err
	}
	j := statsJSON{Version: nsqdVersion, Health: c.health(), StartTime: c.started.Unix(), Topics: []topicJSON{}, Producers: []struct{}{}}
	budget := maxCounted
	for _, t := range c.router.Topics(core.DefaultNamespace) {
		if t.Internal || !isName(t.Name.Name) || args.Get("topic") != "" && args.Get("topic") != t.Name.Name || c.may(router.OpDescribe, router.ResourceTopic, t.Name) != nil {
			continue
		}
		of, err := c.topicStats(t, args.Get("channel"), &budget)
		if core.KindOf(err) == core.NotFound {
			continue // deleted meanwhile
		}
		if err != nil {
			return err
		}
		j.Topics = append(j.Topics, of)
	}
	if args.Get("format") == "json" {
		return c.answer(j)
	}
	send(c.RequestCtx, 200, typeText, j.text(c))
	return nil
}

func (c *call) topicStats(t *router.Topic, only string, budget *int) (topicJSON, error) {
	j := topicJSON{Name: t.Name.Name, Channels: []channelJSON{}}
	there := int64(0)
	for _, q := range t.Partitions {
		head, err := c.router.Head(q)
		if err != nil {
			return j, err
		}
		j.Messages += int64(head.End)
		there += int64(head.End - head.Start)
	}
	channels, err := c.knownChannels(t)
	if err != nil {
		return j, err
	}
	if len(channels) == 0 {
		j.Depth, j.BackendDepth = there, there
	}
	for _, s := range channels {
		name := strings.TrimPrefix(s.Name.Name, t.Name.Name+":")
		if only != "" && only != name || c.may(router.OpDescribe, router.ResourceGroup, s.Name) != nil {
			continue
		}
		if *budget -= len(t.Partitions); *budget < 0 {
			return j, core.E(core.Limit, "channels with more than %d partitions in all: say topic or channel", maxCounted)
		}
		of, err := c.channelStats(t, s)
		if err != nil {
			return j, err
		}
		of.Name, of.Messages = name, j.Messages
		j.Channels = append(j.Channels, of)
	}
	return j, nil
}

func (c *call) channelStats(t *router.Topic, s *router.Subscription) (j channelJSON, err error) {
	n, err := c.router.CountQueues(c.ctx, t.Partitions, s.Group)
	if err != nil {
		return j, err
	}
	j = channelJSON{Depth: n.Ready, BackendDepth: n.Ready, InFlight: n.Unsettled, Deferred: n.Delayed, ClientCount: n.Consumers, Clients: []struct{}{}}
	o, err := subscription.OptionsOf(s)
	j.Paused = o.Push != nil && o.Push.Paused
	return j, err
}

// text says the same to people.
func (j *statsJSON) text(c *call) []byte {
	b := fmt.Appendf(nil, "nsqd v%s (Polylog %s)\nstart_time %s\n\nHealth: %s\n\nTopics:\n",
		j.Version, c.opts.Version, c.started.UTC().Format("2006-01-02T15:04:05Z"), j.Health)
	for i := range j.Topics {
		t := &j.Topics[i]
		b = fmt.Appendf(b, "   [%s] depth: %d be-depth: %d msgs: %d\n", t.Name, t.Depth, t.BackendDepth, t.Messages)
		for k := range t.Channels {
			h := &t.Channels[k]
			b = fmt.Appendf(b, "      [%s] depth: %d be-depth: %d inflt: %d def: %d msgs: %d clients: %d", h.Name, h.Depth, h.BackendDepth, h.InFlight, h.Deferred, h.Messages, h.ClientCount)
			if h.Paused {
				b = append(b, " paused"...)
			}
			b = append(b, '\n')
		}
	}
	return b
}
