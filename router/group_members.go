package router

// LiveGroup is a group of Kafka's clients that has members, as the node that coordinates it knows it.
type LiveGroup struct {
	Name     string        `json:"name"`
	State    string        `json:"state"` // in Kafka's words
	Type     string        `json:"type"`  // classic or consumer
	Protocol string        `json:"protocol,omitempty"`
	Members  []GroupMember `json:"members,omitempty"`
}

// GroupMember is one of its members.
type GroupMember struct {
	ID       string     `json:"id"`
	Instance string     `json:"instance,omitempty"`
	ClientID string     `json:"clientId,omitempty"`
	Host     string     `json:"host,omitempty"`
	Assigned []Assigned `json:"assigned"` // what it reads
}

// Assigned are partitions of a topic.
type Assigned struct {
	Topic      string  `json:"topic"`
	Partitions []int32 `json:"partitions"`
}
