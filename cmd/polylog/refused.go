package main

import (
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
)

// refusals are the broker's codes that need no more words than these.
var refusals = map[*kerr.Error]string{
	kerr.UnknownTopicOrPartition: "does not exist",
	kerr.GroupIDNotFound:         "does not exist",
	kerr.NonEmptyGroup:           "it has members; stop them first",
	kerr.UnknownMemberID:         "it has members; stop them first",
	kerr.TopicDeletionDisabled:   "delete.topic.enable is false",
}

// refused says what the broker's refusal was about, and its own words if it gave any.
func refused(what, name string, err error, message string) error {
	if err == nil {
		return nil
	}
	if code := (*kerr.Error)(nil); errors.As(err, &code) && refusals[code] != "" {
		message = refusals[code]
	}
	if message != "" {
		return fmt.Errorf("%s %s: %s", what, name, message)
	}
	return fmt.Errorf("%s %s: %w", what, name, err)
}
