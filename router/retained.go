package router

import (
	"polylog/core"
	"polylog/router/state"
)

// Retained is a retained message of MQTT.
type Retained = state.Retained

// PublishRetained is PublishChecked for a batch of one record that is not compressed, which
// becomes the retained message of an MQTT topic name in the partition's namespace, or removes
// it where it has no value.
func (r *Router) PublishRetained(p Principal, seq *core.Sequence, q core.QueueID, name core.Name, batch []byte, done func(PublishResult)) {
	r.publish(p, seq, q, batch, true, func(q core.QueueID, batch []byte) core.Command {
		c := state.Retain{Queue: q, Name: name, Batch: batch}
		return c.Command()
	}, done)
}

// Retained calls fn with retained messages of a namespace whose topic names match a filter,
// in the order of their levels, from the one after from on, until it returns false. It looks
// at a bounded number of them: more says that there may be others, after next. What fn gets
// is valid during the call only.
func (r *Router) Retained(namespace, filter, from string, fn func(Retained) bool) (next string, more bool, err error) {
	return state.ReadRetained(r.state.Store(), namespace, filter, from, fn)
}
