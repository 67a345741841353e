package group

// Listing is a group in a list.
type Listing struct {
	ID           string
	ProtocolType string
	State        string // in Kafka's words
	Consumer     bool   // of the new protocol
}

// Description is a group in full.
type Description struct {
	Listing
	Protocol string // empty unless Stable
	Members  []MemberDescription
}

// MemberDescription is a member in full. Metadata and Assignment, which must not be
// changed, are empty unless the group is Stable.
type MemberDescription struct {
	ID, Instance, ClientID, ClientHost string
	Metadata, Assignment               []byte
}

// Stats counts what there is.
type Stats struct {
	Groups, Members int
	Bytes           int64
}

// Stats counts what there is.
func (c *Coordinator) Stats() Stats {
	return Stats{Groups: len(c.groups) + len(c.consumers), Members: c.count, Bytes: c.bytes}
}

// List calls fn for every group in memory, in no order.
func (c *Coordinator) List(fn func(Listing)) {
	for _, g := range c.groups {
		fn(g.listing())
	}
	for _, g := range c.consumers {
		fn(g.listing())
	}
}

// ProtocolType is what the members of a group are, "consumer" for one; empty when it has
// had none.
func (c *Coordinator) ProtocolType(id string) string {
	if g := c.groups[id]; g != nil {
		return g.protocolType
	}
	if c.consumers[id] != nil {
		return ConsumerType
	}
	return ""
}

// Describe describes a classic group; false when it is not in memory.
func (c *Coordinator) Describe(id string) (Description, bool) {
	g := c.groups[id]
	if g == nil {
		return Description{}, false
	}
	d := Description{Listing: g.listing(), Members: make([]MemberDescription, len(g.members))}
	if g.state == Stable {
		d.Protocol = g.protocol
	}
	for i, m := range g.members {
		d.Members[i] = MemberDescription{ID: m.id, Instance: m.instance, ClientID: m.clientID, ClientHost: m.clientHost}
		if g.state == Stable {
			d.Members[i].Metadata, d.Members[i].Assignment = m.metadata(g.protocol), m.assignment
		}
	}
	return d, true
}

func (g *group) listing() Listing {
	return Listing{ID: g.id, ProtocolType: g.protocolType, State: g.state.String()}
}

// Generation is a classic group's generation, 0 when it is not in memory.
func (c *Coordinator) Generation(id string) int32 {
	if g := c.groups[id]; g != nil {
		return g.generation
	}
	return 0
}
