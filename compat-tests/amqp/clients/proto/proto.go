// Package proto is the conversation between the runner and a client under test. Every client is a
// small program, a driver, in the client's own language; the runner speaks to its standard input and
// output in lines of JSON:
//
//	runner → driver   {"id":1,"op":"declare","ch":"a",…}
//	driver → runner   {"id":1,"ok":{…}}                         the operation's outcome, once
//	                  {"id":1,"error":{"code":404,"text":"…"}}  code 0 where the library tells none
//	                  {"id":1,"unsupported":true}               the library has no such thing
//	                  {"event":"deliver","ch":"a","delivery":{…}}
//	                  {"event":"cancelled","ch":"a","tag":"t"}
//
// A driver has one connection, opened by hello, and channels with names of the runner's. Operations
// come one after the other. This is the Go driver's side; the others have the same in their
// languages.
//
//	hello                                → client, version
//	channel ch    close ch               confirm ch: publish then waits for the confirm
//	tx ch         commit ch              rollback ch
//	exchange ch name type durable internal args
//	queue ch name durable exclusive auto_delete passive args → name, messages, consumers
//	bind ch queue exchange key args      unbind the same      xbind ch destination source key
//	purge ch queue → messages            delete ch queue
//	publish ch exchange key body message mandatory → acked, returned (reply code)
//	qos ch prefetch                      consume ch queue tag no_ack args
//	get ch queue no_ack → delivery or empty
//	ack ch number multiple               nack ch number multiple requeue     reject ch number requeue
//	cancel ch tag
//
// Bodies are text. Numbers in tables are whole, times are {"time": seconds}.
package proto

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"sync"
)

// Request is an operation; each uses some of the fields.
type Request struct {
	ID          int            `json:"id"`
	Op          string         `json:"op"`
	Ch          string         `json:"ch,omitempty"`
	Name        string         `json:"name,omitempty"`
	Queue       string         `json:"queue,omitempty"`
	Exchange    string         `json:"exchange,omitempty"`
	Type        string         `json:"type,omitempty"`
	Key         string         `json:"key,omitempty"`
	Source      string         `json:"source,omitempty"`
	Destination string         `json:"destination,omitempty"`
	Tag         string         `json:"tag,omitempty"`
	Body        string         `json:"body,omitempty"`
	Durable     bool           `json:"durable,omitempty"`
	Exclusive   bool           `json:"exclusive,omitempty"`
	AutoDelete  bool           `json:"auto_delete,omitempty"`
	Internal    bool           `json:"internal,omitempty"`
	Passive     bool           `json:"passive,omitempty"`
	NoAck       bool           `json:"no_ack,omitempty"`
	Mandatory   bool           `json:"mandatory,omitempty"`
	Multiple    bool           `json:"multiple,omitempty"`
	Requeue     bool           `json:"requeue,omitempty"`
	Prefetch    int            `json:"prefetch,omitempty"`
	Number      uint64         `json:"number,omitempty"`
	Args        map[string]any `json:"args,omitempty"`
	Message     *Message       `json:"message,omitempty"`
}

// Message is a message's properties; what is zero is not set.
type Message struct {
	ContentType     string         `json:"content_type,omitempty"`
	ContentEncoding string         `json:"content_encoding,omitempty"`
	Persistent      bool           `json:"persistent,omitempty"`
	Priority        int            `json:"priority,omitempty"`
	CorrelationID   string         `json:"correlation_id,omitempty"`
	ReplyTo         string         `json:"reply_to,omitempty"`
	Expiration      string         `json:"expiration,omitempty"`
	MessageID       string         `json:"message_id,omitempty"`
	Timestamp       int64          `json:"timestamp,omitempty"` // seconds
	Type            string         `json:"type,omitempty"`
	UserID          string         `json:"user_id,omitempty"`
	AppID           string         `json:"app_id,omitempty"`
	Headers         map[string]any `json:"headers,omitempty"`
}

// Delivery is a message that a client was given.
type Delivery struct {
	Message
	Tag         string `json:"tag,omitempty"`
	Number      uint64 `json:"number"`
	Redelivered bool   `json:"redelivered,omitempty"`
	Exchange    string `json:"exchange,omitempty"`
	Key         string `json:"key,omitempty"`
	Body        string `json:"body,omitempty"`
}

// Reply is an outcome or an event.
type Reply struct {
	ID          int       `json:"id,omitempty"`
	OK          *Outcome  `json:"ok,omitempty"`
	Error       *Error    `json:"error,omitempty"`
	Unsupported bool      `json:"unsupported,omitempty"`
	Event       string    `json:"event,omitempty"`
	Ch          string    `json:"ch,omitempty"`
	Tag         string    `json:"tag,omitempty"`
	Delivery    *Delivery `json:"delivery,omitempty"`
}

// Outcome is what an operation gives.
type Outcome struct {
	Client    string    `json:"client,omitempty"`
	Version   string    `json:"version,omitempty"`
	Name      string    `json:"name,omitempty"`
	Messages  int       `json:"messages,omitempty"`
	Consumers int       `json:"consumers,omitempty"`
	Acked     bool      `json:"acked,omitempty"`
	Returned  int       `json:"returned,omitempty"`
	Empty     bool      `json:"empty,omitempty"`
	Delivery  *Delivery `json:"delivery,omitempty"`
}

// Error is a broker's refusal.
type Error struct {
	Code int    `json:"code"`
	Text string `json:"text"`
}

func (e *Error) Error() string { return fmt.Sprintf("%d %s", e.Code, e.Text) }

// Driver serves operations.
type Driver struct {
	Do func(Request) (Outcome, error)

	mu sync.Mutex // one line at a time on standard output
}

// Run serves standard input until it ends. An error that is an *Error goes out as it is.
func (d *Driver) Run() error {
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 64<<20)
	for in.Scan() {
		var r Request
		if err := json.Unmarshal(in.Bytes(), &r); err != nil {
			return err
		}
		out, err := d.Do(r)
		reply := Reply{ID: r.ID, OK: &out}
		if err != nil {
			e, ok := err.(*Error) //nolint:errorlint // drivers give it unwrapped
			if !ok {
				e = &Error{Text: err.Error()}
			}
			reply = Reply{ID: r.ID, Error: e}
		}
		d.Say(reply)
	}
	return in.Err()
}

// Say sends a line.
func (d *Driver) Say(r Reply) {
	b, err := json.Marshal(r)
	if err != nil {
		panic(err) // our own types
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	fmt.Fprintf(os.Stdout, "%s\n", b)
}
