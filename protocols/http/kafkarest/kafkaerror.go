package kafkarest

import (
	"strconv"

	"github.com/twmb/franz-go/pkg/kerr"
)

// Kafka's error codes that are looked at here.
const (
	codeNotCoordinator      = 16
	codeUnknownMember       = 25
	codeRebalanceInProgress = 27
	codeGroupDenied         = 30
	codeMemberIDRequired    = 79
)

// kafkaError is an error code of the coordinator's.
func kafkaError(code int16) error {
	e := kerr.TypedErrorForCode(code)
	switch {
	case e == nil:
		return &refusal{codeKafka, "Kafka error: " + strconv.Itoa(int(code))}
	case code == codeGroupDenied:
		return &refusal{codeDenied, e.Description}
	case e.Retriable:
		return &refusal{codeRetriable, e.Description}
	}
	return &refusal{codeKafka, "Kafka error: " + e.Description}
}
