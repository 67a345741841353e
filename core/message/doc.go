// Package message is the form in which the messages of AMQP, MQTT and HTTP are stored as
// Kafka records, and in which they read what Kafka's producers wrote: docs/semantics.md,
// "Parts of a message".
//
// A message's parts that a record has no field for are record headers with the names of
// that page, as text that every Kafka client can read: priority "5", expires-at a time in
// ms. Its own headers follow, in their order. Values that have another type than text or
// bytes are written as text too, numbers in decimal, arrays and tables as JSON, and one
// more header, x-types, tells what they were, so that they come back typed:
//
//	x-types: ---lh-A(IS)
//
// There is one type for each header before x-types: "-" for plain, else a letter of AMQP's
// field types, with those of the elements in parentheses. An "h" in front says that the
// header only looks like one of the parts: it is the publisher's own. What x-types does not
// fit, because somebody changed the headers since, is plain text.
//
// Nothing that a record of strange origin has is an error: it stays a header.
package message
