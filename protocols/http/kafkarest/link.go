package kafkarest

import (
	"net/url"
	"strings"
)

// base is how clients reach this node, with a slash at its end. What is not configured is what the
// client called it.
func (c *call) base() string {
	host := c.opts.Advertised
	if host == "" {
		host = string(c.Host())
	}
	if host == "" { // HTTP/1.0 need not say
		host = c.LocalAddr().String()
	}
	return "http://" + host + "/"
}

// joined are parts as a path.
func joined(parts []string) string {
	escaped := make([]string, len(parts))
	for i, p := range parts {
		escaped[i] = url.PathEscape(p)
	}
	return strings.Join(escaped, "/")
}
