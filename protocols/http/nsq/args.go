package nsq

import (
	"errors"
	"net/url"
	"strings"

	"polylog/core"
	"polylog/router"
)

// args are the arguments of a call, which are in its query as nsqd reads it.
func (c *call) args() (url.Values, error) {
	args, err := url.ParseQuery(string(c.URI().QueryString()))
	if err != nil {
		return nil, errRequest.because(err.Error())
	}
	return args, nil
}

// maxName is the length of a name at most, in bytes.
const maxName = 64

// isName reports whether nsqd takes it for the name of a topic or channel, and one that lasts: those
// that end with #ephemeral go with their last consumer, and there is none here.
func isName(name string) bool {
	return len(name) > 0 && len(name) <= maxName && strings.Trim(name, ".-_0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") == ""
}

// ephemeral is the end of names of what goes with its last consumer.
const ephemeral = "#ephemeral"

// badName is a refusal of a name, which says more where nsqd would take it.
func badName(r refusal, name string) refusal {
	if strings.HasSuffix(name, ephemeral) {
		return r.because("nothing here is ephemeral")
	}
	return r
}

// topicArg is the topic that args name, in the namespace that clients of NSQ see.
func topicArg(args url.Values) (core.Name, error) {
	if !args.Has("topic") {
		return core.Name{}, errNoTopicSaid
	}
	name := args.Get("topic")
	if !isName(name) || router.CheckTopicName(name) != nil {
		return core.Name{}, badName(errTopicName, name)
	}
	return core.TopicName(name), nil
}

// channelArgs are the topic and the channel that args name.
func channelArgs(args url.Values) (topic core.Name, channel string, err error) {
	if topic, err = topicArg(args); err != nil {
		if errors.Is(err, errNoTopicSaid) {
			return topic, "", err
		}
		return topic, "", badName(errArgTopicName, args.Get("topic"))
	}
	if !args.Has("channel") {
		return topic, "", errNoChannelSaid
	}
	if channel = args.Get("channel"); !isName(channel) {
		return topic, "", badName(errArgChannelName, channel)
	}
	return topic, channel, nil
}
