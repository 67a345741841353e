package router

import (
	"net"
	"slices"
	"sync"
	"time"
)

// Client is a client's connection to this node, whatever its protocol.
type Client struct {
	ID        uint64 // on this node: later connections have greater ones
	Protocol  string // kafka, kafka-rest, amqp, mqtt, http, nsq
	Version   string // of the protocol, as far as the client has said
	Remote    string // address
	Local     string
	TLS       bool
	Namespace string
	User      string // empty: nobody in particular
	ClientID  string // that the client gave itself
	Software  string // that the client says it is
	Since     time.Time
	Received  int64 // bytes; -1: not counted
	Details   []Detail
}

// Detail is something that only the protocol knows of a connection.
type Detail struct{ Name, Value string }

// Clients are the connections of clients to this node. Protocols add theirs. The zero value has
// none, and a nil one takes none.
type Clients struct {
	mu   sync.Mutex // guards what follows
	last uint64
	all  map[uint64]func(*Client) // that describe them
}

// Add says that a connection is there, until the function that it gives is called. describe fills
// in what is known of it, whenever somebody asks; it must not block.
func (c *Clients) Add(describe func(*Client)) (leave func()) {
	if c == nil {
		return func() {}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all == nil {
		c.all = map[uint64]func(*Client){}
	}
	c.last++
	id := c.last
	c.all[id] = describe
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.all, id)
	}
}

// AddHTTP adds a connection of HTTP 1.1, over which somebody speaks a protocol.
func (c *Clients) AddHTTP(protocol string, nc net.Conn, since time.Time) (leave func()) {
	return c.Add(func(k *Client) {
		k.Protocol, k.Version, k.Since = protocol, "1.1", since
		k.Remote, k.Local = nc.RemoteAddr().String(), nc.LocalAddr().String()
	})
}

// List is up to limit connections with ids above after for which match is true, the oldest first.
// more says that there are others behind them.
func (c *Clients) List(after uint64, limit int, match func(*Client) bool) (page []Client, more bool) {
	if c == nil {
		return nil, false
	}
	c.mu.Lock()
	ids := make([]uint64, 0, len(c.all))
	for id := range c.all {
		if id > after {
			ids = append(ids, id)
		}
	}
	c.mu.Unlock()
	slices.Sort(ids)
	for _, id := range ids {
		one := Client{ID: id, Received: -1}
		c.mu.Lock()
		describe, ok := c.all[id]
		c.mu.Unlock()
		if !ok {
			continue
		}
		if describe(&one); !match(&one) {
			continue
		}
		if len(page) == limit {
			return page, true
		}
		page = append(page, one)
	}
	return page, false
}
