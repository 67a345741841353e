// Package webhook pushes the messages of subscriptions to HTTP endpoints: signed as Standard
// Webhooks 1.0 has it, on request as CloudEvents, at least once, and to addresses alone that
// the configuration allows.
//
// The Engine runs on the node that leads. It has an endpoint for each subscription that is
// pushed (endpoint.go), which consumes the subscription's groups as any consumer does. What
// became of an attempt is a settlement of the group, with the time of the next one: so it is in
// the log, survives this node, and costs no memory of ours. What is remembered of an endpoint
// is a note beside its subscription (note.go); each attempt is written down in a topic
// (attempts.go). Whoever leads next goes on from there; what was under way is sent again, under
// the same id.
package webhook
