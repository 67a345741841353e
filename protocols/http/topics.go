package httpd

import (
	"maps"
	"slices"
	"strings"
	"time"

	"polylog/core"
	"polylog/protocols/http/front"
	"polylog/protocols/http/publish"
	"polylog/router"
)

// topicJSON is a topic in answers.
type topicJSON struct {
	Name       string            `json:"name"`
	Namespace  string            `json:"namespace"`
	ID         string            `json:"id"`
	Internal   bool              `json:"internal,omitempty"`
	Created    time.Time         `json:"created"`
	Partitions int               `json:"partitions"`
	Configs    map[string]string `json:"configs"` // what was set on the topic itself
	Ranges     []rangeJSON       `json:"ranges,omitempty"`
}

// rangeJSON is what a partition holds.
type rangeJSON struct {
	Partition int         `json:"partition"`
	Start     core.Offset `json:"start"`
	End       core.Offset `json:"end"` // the offset that the next message gets
	Bytes     int64       `json:"bytes"`
}

func jsonOfTopic(t *router.Topic) topicJSON {
	configs := t.Overrides
	if configs == nil {
		configs = map[string]string{}
	}
	return topicJSON{
		Name: t.Name.Name, Namespace: t.Name.Namespace, ID: t.ID.String(), Internal: t.Internal,
		Created: front.Time(t.Created), Partitions: len(t.Partitions), Configs: configs,
	}
}

// List pages.
const (
	defaultPage = 100
	maxPage     = 1000
)

// page is what a call wants of a list: up to limit, after the name that the cursor is.
func (c *call) page() (limit int, after string, err error) {
	n, err := c.number("limit", defaultPage, 1, maxPage)
	return int(n), string(c.QueryArgs().Peek("cursor")), err
}

// search says which names a call wants of a list: those that have what it searches for, whatever the case.
func (c *call) search() func(name string) bool {
	text := strings.ToLower(string(c.QueryArgs().Peek("search")))
	return func(name string) bool { return text == "" || strings.Contains(strings.ToLower(name), text) }
}

// searchSteps is how many names a search looks at for a page; one that finds less is short, and
// has next.
const searchSteps = 10_000

func listTopics(c *call) error {
	if err := c.onlyQuery("limit", "cursor", "prefix", "search"); err != nil {
		return err
	}
	limit, after, err := c.page()
	if err != nil {
		return err
	}
	prefix := string(c.QueryArgs().Peek("prefix"))
	found := c.search()
	answer := struct {
		Topics []topicJSON `json:"topics"`
		Next   string      `json:"next,omitempty"`
	}{Topics: []topicJSON{}}
	for _, t := range c.router.Topics(c.namespace) {
		if t.Name.Name <= after || !strings.HasPrefix(t.Name.Name, prefix) || !found(t.Name.Name) || c.may(router.OpDescribe, router.ResourceTopic, t.Name) != nil {
			continue
		}
		if len(answer.Topics) == limit {
			answer.Next = answer.Topics[limit-1].Name
			break
		}
		answer.Topics = append(answer.Topics, jsonOfTopic(t))
	}
	return c.answer(200, answer)
}

// may asks for rights where the router's method takes no principal.
func (c *call) may(op router.Operation, kind router.ResourceKind, n core.Name) error {
	return c.router.Authorize(c.principal, op, router.Resource{Kind: kind, Name: n})
}

// topic finds the topic of the path, if the principal may do op with it. A node that does
// not know it asks the leader first.
func (c *call) topic(op router.Operation) (*router.Topic, error) {
	n := c.name("topic")
	if err := c.may(op, router.ResourceTopic, n); err != nil {
		return nil, err
	}
	return c.findTopic(n)
}

func (c *call) findTopic(n core.Name) (*router.Topic, error) {
	return publish.Find(c.ctx, c.router, n)
}

func getTopic(c *call) error {
	if err := c.onlyQuery(); err != nil {
		return err
	}
	t, err := c.topic(router.OpDescribe)
	if err != nil {
		return err
	}
	j := jsonOfTopic(t)
	j.Ranges = make([]rangeJSON, len(t.Partitions))
	for i, q := range t.Partitions {
		h, err := c.router.Head(q)
		if err != nil {
			return err
		}
		j.Ranges[i] = rangeJSON{i, h.Start, h.End, h.Bytes}
	}
	return c.answer(200, j)
}

// topicSpec is the body of PUT and PATCH.
type topicSpec struct {
	Partitions int                `json:"partitions"`
	Configs    map[string]*string `json:"configs"` // null: back to the default
}

func (s *topicSpec) changes() (cs []router.ConfigChange) {
	for _, k := range slices.Sorted(maps.Keys(s.Configs)) {
		if v := s.Configs[k]; v != nil {
			cs = append(cs, router.ConfigChange{Key: k, Op: router.ConfigSet, Value: *v})
		} else {
			cs = append(cs, router.ConfigChange{Key: k, Op: router.ConfigDelete})
		}
	}
	return cs
}

// putTopic creates a topic, or changes the one that is there to what the body says.
func putTopic(c *call) error {
	spec := topicSpec{}
	if err := c.definition(&spec); err != nil {
		return err
	}
	n := c.name("topic")
	configs := map[string]string{}
	for k, v := range spec.Configs {
		if v != nil {
			configs[k] = *v
		}
	}
	partitions := spec.Partitions
	switch {
	case partitions < 0:
		return invalid("partitions is %d", partitions)
	case partitions == 0:
		partitions = -1
	}
	t, err := c.router.CreateTopic(c.ctx, c.principal, router.TopicSpec{Name: n, Partitions: partitions, Configs: configs})
	if core.KindOf(err) == core.Exists {
		return c.alterTopic(&spec)
	}
	if err != nil {
		return err
	}
	return c.answer(201, jsonOfTopic(t))
}

func patchTopic(c *call) error {
	spec := topicSpec{}
	if err := c.definition(&spec); err != nil {
		return err
	}
	return c.alterTopic(&spec)
}

func (c *call) alterTopic(spec *topicSpec) error {
	t, err := c.findTopic(c.name("topic"))
	if err != nil {
		return err
	}
	if spec.Partitions != 0 && spec.Partitions < len(t.Partitions) {
		return invalid("topic %s has %d partitions, cannot go to %d", t.Name, len(t.Partitions), spec.Partitions)
	}
	if cs := spec.changes(); len(cs) > 0 {
		if err := c.router.AlterTopicConfig(c.ctx, c.principal, t.Name, cs, false, false); err != nil {
			return err
		}
	}
	if spec.Partitions > len(t.Partitions) {
		if _, err := c.router.CreatePartitions(c.ctx, c.principal, t.Name, spec.Partitions, false); err != nil {
			return err
		}
	}
	if t, err = c.findTopic(t.Name); err != nil {
		return err
	}
	return c.answer(200, jsonOfTopic(t))
}

func deleteTopic(c *call) error {
	t, err := c.topic(router.OpDelete)
	if err != nil {
		return err
	}
	if err := c.router.DeleteTopic(c.ctx, c.principal, t.Name); err != nil {
		return err
	}
	return c.noContent()
}

// configJSON is a setting of a topic.
type configJSON struct {
	Name    string `json:"name"`
	Value   string `json:"value"`
	Default bool   `json:"default"` // nobody set it
	Doc     string `json:"doc"`
}

func getTopicConfigs(c *call) error {
	t, err := c.topic(router.OpDescribeConfigs)
	if err != nil {
		return err
	}
	answer := struct {
		Configs []configJSON `json:"configs"`
	}{}
	for _, e := range c.router.DescribeTopicConfig(t) {
		answer.Configs = append(answer.Configs, configJSON{e.Key.Name, e.Value, e.Source == router.SourceDefault, e.Key.Doc})
	}
	return c.answer(200, answer)
}

// topicToWrite finds the topic that is published to, or makes it, where that is allowed.
func (c *call) topicToWrite(n core.Name) (*router.Topic, error) {
	return publish.FindOrCreate(c.ctx, c.router, c.principal, n)
}
