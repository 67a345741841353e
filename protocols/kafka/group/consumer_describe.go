package group

// ConsumerDescription is a group of the new protocol in full.
type ConsumerDescription struct {
	Listing
	Epoch    int32
	Assignor string
	Members  []ConsumerMember
}

// ConsumerMember is a member of a group of the new protocol in full. Slices must not be
// changed.
type ConsumerMember struct {
	ID, Instance, Rack, ClientID, ClientHost string
	Epoch                                    int32
	Topics                                   []string
	Pattern                                  string
	Assigned, Target                         []Partition
}

// DescribeConsumers describes a group of the new protocol; false when it is not in memory.
func (c *Coordinator) DescribeConsumers(id string) (ConsumerDescription, bool) {
	g := c.consumers[id]
	if g == nil {
		return ConsumerDescription{}, false
	}
	d := ConsumerDescription{Listing: g.listing(), Epoch: g.epoch, Assignor: g.assignor()}
	for _, m := range g.members {
		d.Members = append(d.Members, ConsumerMember{
			ID: m.id, Instance: m.instance, Rack: m.rack, ClientID: m.clientID, ClientHost: m.clientHost,
			Epoch: m.epoch, Topics: m.names, Pattern: m.pattern.Text(),
			Assigned: m.assigned.sorted(), Target: m.target.sorted(),
		})
	}
	return d, true
}

func (g *consumers) listing() Listing {
	return Listing{ID: g.id, ProtocolType: ConsumerType, State: g.state(), Consumer: true}
}
