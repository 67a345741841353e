package kafkarest

import (
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"polylog/core"
	"polylog/protocols/http/publish"
	"polylog/protocols/kafka"
	"polylog/router"
)

// maxWanted bounds the topics of a subscription, and the partitions of any other request.
const maxWanted = 10_000

// maxMetadata bounds what is said with an offset, in bytes: the coordinator has its own bound, but
// Kafka's protocol cannot say more.
const maxMetadata = math.MaxInt16

// numberJSON is a number, which clients also write in a string.
type numberJSON int64

// UnmarshalJSON reads either form.
func (n *numberJSON) UnmarshalJSON(b []byte) error {
	v, err := strconv.ParseInt(strings.Trim(string(b), `"`), 10, 64)
	if err != nil {
		return unprocessed("not a whole number: " + string(b[:min(len(b), 40)]))
	}
	*n = numberJSON(v)
	return nil
}

// flagJSON is true or false, which clients also write in a string.
type flagJSON bool

// UnmarshalJSON reads either form.
func (f *flagJSON) UnmarshalJSON(b []byte) error {
	v, err := strconv.ParseBool(strings.ToLower(strings.Trim(string(b), `"`)))
	if err != nil {
		return &refusal{codeConfig, "Invalid consumer configuration: Expected value to be either true or false"}
	}
	*f = flagJSON(v)
	return nil
}

// createJSON is what a client wants of an instance.
type createJSON struct {
	ID         *string     `json:"id"` // what name was called once
	Name       *string     `json:"name"`
	Format     *string     `json:"format"`
	Reset      *string     `json:"auto.offset.reset"`
	AutoCommit *flagJSON   `json:"auto.commit.enable"`
	AutoAlso   *flagJSON   `json:"enable.auto.commit"` // Strimzi's word
	MinBytes   *numberJSON `json:"fetch.min.bytes"`
	MinAlso    *numberJSON `json:"responseMinBytes"`
	Wait       *numberJSON `json:"consumer.request.timeout.ms"`
	WaitAlso   *numberJSON `json:"requestWaitMs"`
}

// config checks what is wanted.
func (j *createJSON) config() (c instanceConfig, err error) {
	c = instanceConfig{format: asBase64, reset: "latest", autoCommit: true, minBytes: 1, wait: -1}
	if j.Format != nil {
		f, ok := formats[strings.ToLower(*j.Format)]
		switch {
		case !ok:
			return c, unprocessed("Invalid format type.")
		case f == schema:
			return c, errNoSchemas
		}
		c.format = f
	}
	if j.Reset != nil {
		if c.reset = *j.Reset; !slices.Contains([]string{"earliest", "latest", "none"}, c.reset) {
			return c, &refusal{codeConfig, "Invalid consumer configuration: Invalid value " + c.reset + " for configuration auto.offset.reset"}
		}
	}
	for _, f := range []*flagJSON{j.AutoAlso, j.AutoCommit} {
		if f != nil {
			c.autoCommit = bool(*f)
		}
	}
	for _, n := range []*numberJSON{j.MinAlso, j.MinBytes} {
		if n == nil {
			continue
		}
		if *n < -1 || *n > 10_000_000 {
			return c, &refusal{40001, "Invalid consumer configuration. It does not abide by the constraints: fetch.min.bytes is -1 to 10000000"}
		}
		c.minBytes = int(*n)
	}
	for _, n := range []*numberJSON{j.WaitAlso, j.Wait} {
		if n == nil {
			continue
		}
		if *n < 0 {
			return c, &refusal{codeConfig, "Invalid consumer configuration: consumer.request.timeout.ms is negative"}
		}
		c.wait = min(time.Duration(*n)*time.Millisecond, maxWait)
	}
	return c, nil
}

// maxWait bounds how long a call for records may wait.
const maxWait = 5 * time.Minute

func createInstance(c *call) error {
	if err := c.takes(); err != nil {
		return err
	}
	request := createJSON{}
	if _, err := c.decode(maxDefinition, &request); err != nil {
		return err
	}
	config, err := request.config()
	if err != nil {
		return err
	}
	group, name := c.params.Get("group"), newName()
	for _, given := range []*string{request.Name, request.ID} {
		if given != nil {
			name = *given
		}
	}
	if err := checkName("the name of the instance", name); err != nil {
		return err
	}
	if err := checkName("the group", group); err != nil {
		return err
	}
	if err := c.may(router.OpRead, router.ResourceGroup, core.Name{Name: group}); err != nil {
		return err
	}
	caller := kafka.Caller{Principal: c.principal, From: c.RemoteAddr().String()}
	if _, err := c.instances.add(caller, group, name, config); err != nil {
		return err
	}
	return c.answer(200, struct {
		ID  string `json:"instance_id"`
		URI string `json:"base_uri"`
	}{name, c.base() + joined([]string{"consumers", group, "instances", name})})
}

func deleteInstance(c *call) error {
	in, err := c.instance()
	if err != nil {
		return err
	}
	defer in.leave()
	if err := c.instances.remove(in); err != nil {
		return err
	}
	in.close(true)
	return c.noContent()
}

// instance is the path's, for whom it belongs to. leave ends the call for it.
func (c *call) instance() (*instance, error) {
	in, err := c.instances.find(c.params.Get("group"), c.params.Get("instance"))
	if err != nil {
		return nil, err
	}
	if in.principal().Name != c.principal.Name {
		in.leave()
		return nil, errInstanceNotFound
	}
	in.adopt(c.principal)
	return in, nil
}

// with reads the body into v and runs fn with the instance.
func (c *call) with(v any, fn func(in *instance, there bool) error) error {
	in, err := c.instance()
	if err != nil {
		return err
	}
	defer in.leave()
	if err := c.takes(); err != nil {
		return err
	}
	there, err := c.decode(maxDefinition*4, v)
	if err != nil {
		return err
	}
	return fn(in, there)
}

// errNoBody refuses a request that says nothing.
var errNoBody = unprocessed("Null input provided. Data is required.")

func subscribe(c *call) error {
	request := struct {
		Topics  []string `json:"topics"`
		Pattern *string  `json:"topic_pattern"`
	}{}
	return c.with(&request, func(in *instance, there bool) error {
		switch {
		case !there:
			return errNoBody
		case request.Topics != nil && request.Pattern != nil:
			return errSubscribed
		case len(request.Topics) > maxWanted:
			return unprocessed("too many topics")
		case request.Topics == nil && request.Pattern == nil:
			return c.noContent() // the original takes it, too
		}
		for _, t := range request.Topics {
			if err := router.CheckTopicName(t); err != nil {
				return err
			}
			if err := c.may(router.OpRead, router.ResourceTopic, topicName(t)); err != nil {
				return err
			}
		}
		var pattern *regexp.Regexp
		if request.Pattern != nil {
			var err error
			if pattern, err = regexp.Compile("^(?:" + *request.Pattern + ")$"); err != nil {
				return &refusal{codeUnprocessed, "topic_pattern: " + err.Error()}
			}
		}
		if pattern == nil && len(request.Topics) == 0 {
			in.unsubscribe(true)
			return c.noContent()
		}
		if err := in.subscribe(request.Topics, pattern); err != nil {
			return err
		}
		return c.noContent()
	})
}

func getSubscription(c *call) error {
	in, err := c.instance()
	if err != nil {
		return err
	}
	defer in.leave()
	in.mu.Lock()
	m := in.membership
	in.mu.Unlock()
	topics := []string{}
	if m != nil {
		topics = append(topics, m.topics()...)
	}
	return c.answer(200, struct {
		Topics []string `json:"topics"`
	}{topics})
}

func unsubscribe(c *call) error {
	in, err := c.instance()
	if err != nil {
		return err
	}
	defer in.leave()
	in.unsubscribe(true)
	return c.noContent()
}

// partitionsJSON is a request about partitions.
type partitionsJSON struct {
	Partitions []topicPartition `json:"partitions"`
}

func assign(c *call) error {
	request := partitionsJSON{}
	return c.with(&request, func(in *instance, there bool) error {
		if !there {
			return errNoBody
		}
		if len(request.Partitions) > maxWanted {
			return unprocessed("too many partitions")
		}
		for _, p := range request.Partitions {
			if _, err := c.known(p); err != nil {
				return err
			}
		}
		if err := in.assign(c.ctx, request.Partitions); err != nil {
			return err
		}
		return c.noContent()
	})
}

// known is a partition that exists and that the caller may read.
func (c *call) known(p topicPartition) (core.QueueID, error) {
	n := topicName(p.Topic)
	if err := c.may(router.OpRead, router.ResourceTopic, n); err != nil {
		return 0, err
	}
	t, err := publish.Find(c.ctx, c.router, n)
	if k := core.KindOf(err); k == core.NotFound || k == core.Invalid {
		return 0, errTopicNotFound
	}
	if err != nil {
		return 0, err
	}
	if p.Partition < 0 || int(p.Partition) >= len(t.Partitions) {
		return 0, errPartitionNotFound
	}
	return t.Partitions[p.Partition], nil
}

func getAssignments(c *call) error {
	in, err := c.instance()
	if err != nil {
		return err
	}
	defer in.leave()
	answer := partitionsJSON{[]topicPartition{}}
	in.mu.Lock()
	for p := range in.parts {
		answer.Partitions = append(answer.Partitions, p)
	}
	in.mu.Unlock()
	slices.SortFunc(answer.Partitions, func(a, b topicPartition) int {
		if n := strings.Compare(a.Topic, b.Topic); n != 0 {
			return n
		}
		return int(a.Partition) - int(b.Partition)
	})
	return c.answer(200, answer)
}

// move sets the position of an assigned partition to what to gives.
func (c *call) move(in *instance, p topicPartition, to func(core.QueueID) (core.Offset, error)) error {
	in.mu.Lock()
	k := in.parts[p]
	in.mu.Unlock()
	if k == nil {
		return &refusal{codeIllegal, "Illegal state: No current assignment for partition " + p.Topic + "-" + strconv.Itoa(int(p.Partition))}
	}
	o, err := to(k.queue)
	if err != nil {
		return err
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	k.at, k.sure = o, o
	return nil
}

func seek(c *call) error {
	request := struct {
		Offsets []struct {
			topicPartition
			Offset   core.Offset `json:"offset"`
			Metadata *string     `json:"metadata"`
		} `json:"offsets"`
		Timestamps []struct {
			topicPartition
			Timestamp time.Time `json:"timestamp"`
			Metadata  *string   `json:"metadata"`
		} `json:"timestamps"`
	}{}
	return c.with(&request, func(in *instance, there bool) error {
		if !there {
			return errNoBody
		}
		if len(request.Offsets)+len(request.Timestamps) > maxWanted {
			return unprocessed("too many positions")
		}
		for _, o := range request.Offsets {
			if o.Offset < 0 {
				return unprocessed("offset may not be negative")
			}
			if err := c.move(in, o.topicPartition, func(core.QueueID) (core.Offset, error) { return o.Offset, nil }); err != nil {
				return err
			}
		}
		for _, o := range request.Timestamps {
			err := c.move(in, o.topicPartition, func(q core.QueueID) (core.Offset, error) {
				at, _, ok, err := c.router.OffsetByTime(c.ctx, q, o.Timestamp.UnixMilli())
				if err != nil || ok {
					return at, err
				}
				h, err := c.router.Head(q)
				return h.End, err
			})
			if err != nil {
				return err
			}
		}
		return c.noContent()
	})
}

func seekToBeginning(c *call) error {
	return c.seekTo(func(h router.Head) core.Offset { return h.Start })
}

func seekToEnd(c *call) error {
	return c.seekTo(func(h router.Head) core.Offset { return h.Stable })
}

func (c *call) seekTo(where func(router.Head) core.Offset) error {
	request := partitionsJSON{}
	return c.with(&request, func(in *instance, there bool) error {
		if !there {
			return errNoBody
		}
		if len(request.Partitions) > maxWanted {
			return unprocessed("too many partitions")
		}
		for _, p := range request.Partitions {
			err := c.move(in, p, func(q core.QueueID) (core.Offset, error) {
				h, err := c.router.Head(q)
				return where(h), err
			})
			if err != nil {
				return err
			}
		}
		return c.noContent()
	})
}

// commitOffsets commits what the client says, as the last record that it is done with of each
// partition, or, without a body, all that it was given.
func commitOffsets(c *call) error {
	request := struct {
		Offsets []struct {
			topicPartition
			Offset   core.Offset `json:"offset"`
			Metadata *string     `json:"metadata"`
		} `json:"offsets"`
	}{}
	return c.with(&request, func(in *instance, there bool) error {
		in.arrived()
		var ps []position
		if there {
			if len(request.Offsets) > maxWanted {
				return unprocessed("too many offsets")
			}
			for _, o := range request.Offsets {
				if o.Offset < -1 || o.Offset == math.MaxInt64 {
					return unprocessed("offset may not be negative, nor the last number that there is")
				}
				if err := router.CheckTopicName(o.Topic); err != nil {
					return err
				}
				if o.Metadata != nil && len(*o.Metadata) > maxMetadata {
					return unprocessed("metadata is too long")
				}
				ps = append(ps, position{o.topicPartition, o.Offset + 1, o.Metadata})
			}
		} else {
			ps = in.positions(false)
		}
		if len(ps) > 0 {
			if err := in.commit(c.ctx, ps); err != nil {
				return err
			}
		}
		return c.answer(200, []struct{}{})
	})
}

// committedOffsets are what the group has committed of some partitions, whoever did.
func committedOffsets(c *call) error {
	type committedJSON struct {
		topicPartition
		Offset   core.Offset `json:"offset"`
		Metadata string      `json:"metadata"`
	}
	request := partitionsJSON{}
	return c.with(&request, func(in *instance, there bool) error {
		if !there {
			return errPartitionNotFound
		}
		if len(request.Partitions) > maxWanted {
			return unprocessed("too many partitions")
		}
		if err := c.router.Sync(c.ctx); err != nil {
			return err
		}
		answer := struct {
			Offsets []committedJSON `json:"offsets"`
		}{[]committedJSON{}}
		for _, p := range request.Partitions {
			q, err := c.known(p)
			if err != nil {
				return err
			}
			o, ok, err := c.router.FetchOffset(in.group, q)
			if err != nil {
				return err
			}
			if ok {
				answer.Offsets = append(answer.Offsets, committedJSON{p, o.Offset, o.Metadata})
			}
		}
		return c.answer(200, answer)
	})
}
