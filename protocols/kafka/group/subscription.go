package group

import (
	"encoding/binary"
	"errors"
)

// ConsumerType is the protocol type of consumers. The metadata of its members, which is
// the clients' affair otherwise, begins like this in every version; what follows are
// user data, owned partitions, generation and rack:
//
//	 0         2                6             8
//	+---------+----------------+-------------+------+---
//	| version | topics, i32    | length, i16 | name | …
//	| i16     | (-1 = none)    |             |      |
//	+---------+----------------+-------------+------+---
const ConsumerType = "consumer"

var errSubscription = errors.New("consumer subscription is malformed")

// SubscribedTopics decodes the topics that a consumer subscribes to.
func SubscribedTopics(b []byte) ([]string, error) {
	be := binary.BigEndian
	if len(b) < 6 || int16(be.Uint16(b)) < 0 {
		return nil, errSubscription
	}
	n := int(int32(be.Uint32(b[2:])))
	b = b[6:]
	if n > len(b)/2 {
		return nil, errSubscription
	}
	topics := make([]string, 0, max(n, 0))
	for range n {
		if len(b) < 2 {
			return nil, errSubscription
		}
		size := int(be.Uint16(b))
		if size > len(b)-2 {
			return nil, errSubscription
		}
		topics = append(topics, string(b[2:2+size]))
		b = b[2+size:]
	}
	return topics, nil
}
