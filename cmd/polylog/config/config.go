// Package config is the broker's configuration: one plain struct whose tags give
// each setting its one name, default and sentence. From them come the flag
// (--kafka-listen), the environment variable (POLYLOG_KAFKA_LISTEN), the key in the
// YAML file (kafka-listen) and the entry in docs/configuration.md.
//
// A flag wins over the environment, the environment over the file, the file over the
// default. Whatever names no setting, or gives one a value that it cannot take, is an
// error that says where: nothing is ignored.
package config

import (
	"cmp"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"time"
)

// Off is the value of a listener that is not wanted.
const Off = "off"

// Config is the whole configuration of `polylog serve`.
type Config struct {
	DataDir  string `key:"data-dir" default:"data" section:"Node" doc:"Directory that holds everything the broker keeps. It is created if it does not exist; one process at a time may use it."`
	NodeID   string `key:"node-id" kind:"name" doc:"This node's name in the cluster. A number is the broker id that Kafka clients see; for any other name they see a number made from it. It is fixed when the data directory is created: empty means the directory's own, and 1 for a new one."`
	AddrFile string `key:"addr-file" doc:"File that gets one name=host:port line per listener as soon as all of them accept connections, written whole or not at all."`

	KafkaListen        string `key:"kafka-listen" kind:"address" default:"127.0.0.1:9092" section:"Listeners" doc:"Address for Kafka clients."`
	KafkaAdvertise     string `key:"kafka-advertise" kind:"advertise" doc:"host:port that Kafka clients are told to connect to; empty means the address that each of them came by. It must be set where that is not the way back, such as behind a proxy or a port mapping."`
	AMQPListen         string `key:"amqp-listen" kind:"address" default:"127.0.0.1:5672" doc:"Address for AMQP 0-9-1 clients. While there are no users only guest can log in, from this machine."`
	AMQPSListen        string `key:"amqps-listen" kind:"address" default:"off" doc:"Address for AMQP 0-9-1 clients over TLS, port 5671 by custom; it needs tls-cert and tls-key."`
	HTTPListen         string `key:"http-listen" kind:"address" default:"127.0.0.1:8080" doc:"Address for the REST interface, the console, health checks, metrics and profiles."`
	ManagementListen   string `key:"management-listen" kind:"address" default:"127.0.0.1:15672" doc:"Address of RabbitMQ's management API, for rabbitmqadmin, exporters and health probes. Its users are AMQP's."`
	KafkaRESTListen    string `key:"kafka-rest-listen" kind:"address" default:"127.0.0.1:8082" doc:"Address of the Kafka REST interface, for programs that were written for Confluent's REST proxy."`
	KafkaRESTAdvertise string `key:"kafka-rest-advertise" kind:"advertise" doc:"host:port that clients of the Kafka REST interface are told to use for a consumer instance, which belongs to this node; empty means the one that each of them came by. It must be set in a cluster that is reached by one address."`
	NSQListen          string `key:"nsq-listen" kind:"address" default:"127.0.0.1:4151" doc:"Address of nsqd's HTTP interface, for programs that publish to /pub and /mpub."`
	MQTTListen         string `key:"mqtt-listen" kind:"address" default:"127.0.0.1:1883" doc:"Address for MQTT clients."`
	MQTTSListen        string `key:"mqtts-listen" kind:"address" default:"off" doc:"Address for MQTT clients over TLS, port 8883 by custom; it needs tls-cert and tls-key."`
	MQTTWSListen       string `key:"mqtt-ws-listen" kind:"address" default:"127.0.0.1:8083" doc:"Address for MQTT clients over WebSocket, under any path."`
	NodeListen         string `key:"node-listen" kind:"address" default:"off" doc:"Address for the other nodes of a cluster, port 7420 by custom, and for polylog cluster. A lone node needs none."`

	NodeAdvertise string        `key:"node-advertise" kind:"advertise" section:"Cluster" doc:"host:port under which the other nodes reach this one; empty means node-listen. It must be set where that is not the way, such as with 0.0.0.0 or behind a port mapping."`
	Join          Addresses     `key:"join" doc:"Addresses of nodes of a cluster, separated by commas. A node with a new data directory joins their cluster instead of beginning one; on later starts they say which cluster it must be, where they answer. All nodes may have the same list: their own address in it is passed over."`
	JoinTimeout   time.Duration `key:"join-timeout" min:"1s" default:"30s" doc:"How long to try to join while no node of the cluster answers, or it has no leader."`

	NodeTLSCert string `key:"node-tls-cert" doc:"PEM file with this node's certificate, for mutual TLS between nodes, and what it is chained to. It must name the host that other nodes connect to. Without node-tls-* whoever reaches node-listen counts as a node. The files are read again when they change."`
	NodeTLSKey  string `key:"node-tls-key" doc:"PEM file with the key of node-tls-cert."`
	NodeTLSCA   string `key:"node-tls-ca" doc:"PEM file with the authorities that sign the nodes' certificates. Whoever has a certificate of theirs counts as a node: they should sign nothing else."`

	FirstUser             string `key:"first-user" default:"admin" section:"Users" doc:"Name of the administrator that is made with first-user-password-file."`
	FirstUserPasswordFile string `key:"first-user-password-file" doc:"File with a password in its first line: where the cluster has no users when this node starts, first-user is made with it, as an administrator who may do everything in the default namespace. Later it does not matter. Without it users are made by polylog user add, on this machine."`
	AnonymousUser         string `key:"anonymous-user" doc:"User that clients of HTTP, Kafka REST, NSQ and MQTT are who show no credentials, and those of AMQP who log in by ANONYMOUS, once there are users; its rights hold for them, its tags do not. Empty means that they are refused."`

	TLSCert       string `key:"tls-cert" section:"TLS" doc:"PEM file with the certificate that clients see, and what it is chained to. The files are read again when they change."`
	TLSKey        string `key:"tls-key" doc:"PEM file with the key of tls-cert."`
	TLSClientCA   string `key:"tls-client-ca" doc:"PEM file with the authorities that sign clients' certificates. A certificate that a client shows must be one of theirs; an AMQP client that shows one can log in by it (EXTERNAL), from any machine."`
	TLSClientAuth string `key:"tls-client-auth" oneof:"optional,required" default:"optional" doc:"Whether clients must show a certificate of tls-client-ca."`

	BrokerConfig Pairs `key:"broker-config" section:"Broker" doc:"Kafka's broker settings under Kafka's names, such as num.partitions or auto.create.topics.enable: the defaults of topics and more, listed under \"Broker settings\" below. On the command line and in the environment each is name=value, several separated by semicolons. What is altered at run time through a Kafka client wins over them."`

	MaxConnections      int           `key:"max-connections" min:"1" default:"10000" doc:"Connections at a time, of Kafka clients and of AMQP clients each; more are closed at once."`
	RequestMemory       Size          `key:"request-memory" min:"1MiB" default:"128MiB" doc:"Memory for Kafka requests that are being received or worked on, all connections together; beyond it clients have to wait. One request of up to 100 MiB is let in always."`
	MessageMemory       Size          `key:"message-memory" min:"1MiB" default:"64MiB" doc:"Memory for messages of AMQP clients that are being received or not yet stored, all connections together; beyond it those who publish have to wait."`
	AMQPConsumerTimeout time.Duration `key:"amqp-consumer-timeout" default:"30m" doc:"For how long AMQP clients may keep a delivery without an answer, unless its queue, its consumer or a policy says less or more; then their channel is closed and others get the message. 0s means for ever."`
	FetchMemory         Size          `key:"fetch-memory" min:"1MiB" default:"64MiB" doc:"Memory for records on their way to Kafka clients, all connections together; beyond it each fetch gets little."`

	HTTPMaxBody       Size `key:"http-max-body" min:"64KiB" max:"256MiB" default:"16MiB" doc:"Largest body of an HTTP request. How large one message may be is max.message.bytes of its topic."`
	HTTPRequestMemory Size `key:"http-request-memory" min:"1MiB" default:"128MiB" doc:"Memory for the bodies of HTTP requests, all connections together; beyond it clients have to wait, or are told to try again. One body of http-max-body is let in always. Hooks have a quarter of it beside it."`

	Console          string `key:"console" oneof:"on,off" default:"on" doc:"Whether the console, a page for browsers, is at http-listen. While it is, browsers change nothing over HTTP before they have logged in to it."`
	ConsoleTokenFile string `key:"console-token-file" doc:"File with the token that people log in to the console with, 16 bytes or more in its first line; the same one on every node. Without it nobody can log in, but browsers on this machine may unlock the console where http-listen is a loopback address."`

	WebhookAllow  Networks `key:"webhook-allow" doc:"Networks that webhooks may be sent to beside the public internet, such as 10.0.0.0/8,fd00::/8, separated by commas. Without it addresses of this machine and of private networks are refused. Those at which clouds tell machines their secrets always are."`
	WebhookOrigin string   `key:"webhook-origin" default:"polylog" doc:"Name under which this broker asks endpoints for their consent (WebHook-Request-Origin of CloudEvents)."`

	MQTTRules     Rules  `key:"mqtt-rules" section:"MQTT" doc:"Which topic of the log MQTT messages go to, and under which key: filter=topic or filter=topic:key, several separated by semicolons; the first whose filter matches the message's topic name holds. key is name (the whole topic name), none, or the number of a level, from 1. Without a rule the first level is the topic and the whole name the key."`
	MQTTTopic     string `key:"mqtt-topic" default:"mqtt" doc:"Topic of the log for MQTT messages whose first level is no legal name of a topic."`
	MQTTMaxPacket Size   `key:"mqtt-max-packet" min:"1KiB" max:"64MiB" default:"1MiB" doc:"Size of the largest packet that MQTT clients may send; they are told. What is larger than the topic's max.message.bytes is refused all the same."`
	MQTTMaxQueued int    `key:"mqtt-max-queued" min:"1" default:"20000" doc:"Messages of QoS 1 and 2 that wait for one subscriber that does not keep up; more are left out, and counted."`

	MQTTMaxQueuedBytes Size `key:"mqtt-max-queued-bytes" default:"0" doc:"The same in bytes of their payloads: the oldest messages of who is away, or the newest of who does not keep up, are left out when either limit is reached. 0 means no limit."`

	MQTTMaxSessionExpiry time.Duration `key:"mqtt-max-session-expiry" max:"4294967294s" default:"0s" doc:"How long an MQTT session may go on without a connection. A client that asks for more gets this, and is told with MQTT 5; one of MQTT 3.1.1 without clean session, which cannot ask, gets it too. Sessions that are there already have what they got until their next connection. 0 means any, so that a device that never comes back keeps up to mqtt-max-queued messages, or mqtt-max-queued-bytes, of each of its filters in the log."`

	MQTTReceiveMaximum int           `key:"mqtt-receive-maximum" min:"1" max:"65535" default:"1024" doc:"Publishes of QoS 1 and 2 that a client of MQTT 5 may have unacknowledged; it is told."`
	MQTTMaxKeepAlive   time.Duration `key:"mqtt-max-keep-alive" max:"65535s" default:"0s" doc:"Longest keep-alive that MQTT clients may have: who asks for a longer one, or for none, gets this one, and is told with MQTT 5. 0 means any."`
	MQTTDenySubscribe  Filters       `key:"mqtt-deny-subscribe" doc:"Topic filters that no MQTT client may subscribe to, such as #, as they are written; several separated by semicolons. The answer is 0x80."`
	MQTTSysInterval    time.Duration `key:"mqtt-sys-interval" min:"1s" default:"10s" doc:"Time between two messages of a topic under $SYS whose value has changed."`

	Flush         string        `key:"flush" oneof:"sync,interval,os" default:"sync" section:"Storage" doc:"When the log is flushed to the disk. sync: before a write is acknowledged. interval: every flush-interval, so a power cut can lose acknowledged writes of that time. os: when the operating system chooses, so a power cut can lose more. A killed process loses nothing with any of them."`
	FlushInterval time.Duration `key:"flush-interval" min:"1ms" default:"50ms" doc:"Time between flushes with flush=interval."`
	SegmentSize   Size          `key:"segment-size" min:"1MiB" max:"2GiB" default:"1GiB" doc:"Size of one file of the log. Space is given back by whole files. The same on all nodes of a cluster: a damaged file is fetched whole from another node."`
	LogCache      Size          `key:"log-cache" min:"1MiB" default:"8MiB" doc:"Memory for the newest entries of the log, from which consumers at the tail are served; those behind it are served from its files, by the system's page cache."`
	CatchUpRate   Size          `key:"catch-up-rate" default:"64MiB" doc:"Bytes a second that this node gives to others that fetch its files, because they were away for too long or repair damage. 0 means no limit."`
	ScrubInterval time.Duration `key:"scrub-interval" default:"24h" doc:"Time between two readings of the whole log but its newest file, to find what the disk has damaged while other nodes have a good copy. 0s means never."`
	ScrubRate     Size          `key:"scrub-rate" default:"16MiB" doc:"Bytes a second that such a reading reads at most. 0 means no limit."`
	IndexCache    Size          `key:"index-cache" min:"1MiB" default:"16MiB" doc:"Memory for blocks of the index files."`

	GCPercent       int           `key:"gc-percent" min:"10" default:"100" section:"Process" doc:"How much the heap may grow, in percent of what is live, before memory is collected."`
	MemoryLimit     Size          `key:"memory-limit" default:"256MiB" doc:"Soft limit for the memory of the process: near it, memory is collected more often. It gives way where it has no room for half as much again as is in use. 0 means none. It should be well above log-cache and index-cache."`
	ClockOffset     time.Duration `key:"clock-offset" default:"0s" doc:"For tests of clusters whose clocks differ, and for nothing else: it is added to the machine's clock in the times that this node gives to what it stores. May be negative."`
	ShutdownTimeout time.Duration `key:"shutdown-timeout" min:"1s" default:"30s" doc:"How long a stop waits for connections to finish before it closes them."`
	LogLevel        slog.Level    `key:"log-level" default:"info" doc:"Least level that is logged: debug, info, warn or error."`
	LogFormat       string        `key:"log-format" oneof:"text,json" default:"text" doc:"Form of the log lines on standard error."`
}

// Default is the configuration when nothing is set.
func Default() *Config {
	c := &Config{}
	for _, s := range c.settings() {
		if s.def == "" {
			continue
		}
		if err := s.set(s.def); err != nil {
			panic(fmt.Sprintf("default of %s: %v", s.key, err))
		}
	}
	return c
}

// Validate checks what no single setting can say of itself.
func (c *Config) Validate() error {
	if c.DataDir == "" {
		return fmt.Errorf("data-dir: must name a directory")
	}
	if err := c.validateListeners(); err != nil {
		return err
	}
	if err := c.validateCluster(); err != nil {
		return err
	}
	if n := len(slices.DeleteFunc([]string{c.NodeTLSCert, c.NodeTLSKey, c.NodeTLSCA}, func(s string) bool { return s == "" })); n != 0 && n != 3 {
		return fmt.Errorf("node-tls-cert, node-tls-key and node-tls-ca: set all three or none")
	}
	if err := c.validateTLS(); err != nil {
		return err
	}
	if c.MemoryLimit > 0 && c.MemoryLimit < c.LogCache+c.IndexCache {
		return fmt.Errorf("memory-limit: %s is less than log-cache and index-cache together (%s)", c.MemoryLimit, c.LogCache+c.IndexCache)
	}
	return nil
}

// validateTLS checks that listeners have what they need.
func (c *Config) validateTLS() error {
	switch {
	case (c.TLSCert == "") != (c.TLSKey == ""):
		return fmt.Errorf("tls-cert and tls-key: set both or none")
	case c.TLSClientCA != "" && c.TLSCert == "":
		return fmt.Errorf("tls-client-ca: means nothing without tls-cert and tls-key")
	case c.TLSClientAuth == "required" && c.TLSClientCA == "":
		return fmt.Errorf("tls-client-auth: needs tls-client-ca")
	case c.TLSCert == "" && c.AMQPSListen != Off:
		return fmt.Errorf("amqps-listen: needs tls-cert and tls-key")
	case c.TLSCert == "" && c.MQTTSListen != Off:
		return fmt.Errorf("mqtts-listen: needs tls-cert and tls-key")
	}
	return nil
}

// validateListeners checks that no two listeners have one address.
func (c *Config) validateListeners() error {
	taken := map[string]string{}
	for _, l := range []struct{ name, addr string }{
		{"kafka-listen", c.KafkaListen},
		{"amqp-listen", c.AMQPListen},
		{"amqps-listen", c.AMQPSListen},
		{"mqtts-listen", c.MQTTSListen},
		{"http-listen", c.HTTPListen},
		{"management-listen", c.ManagementListen},
		{"kafka-rest-listen", c.KafkaRESTListen},
		{"nsq-listen", c.NSQListen},
		{"node-listen", c.NodeListen},
		{"mqtt-listen", c.MQTTListen},
		{"mqtt-ws-listen", c.MQTTWSListen},
	} {
		if _, port, err := net.SplitHostPort(l.addr); err != nil || port == "0" {
			continue
		}
		if other, ok := taken[l.addr]; ok {
			return fmt.Errorf("%s and %s: both are %s", other, l.name, l.addr)
		}
		taken[l.addr] = l.name
	}
	return nil
}

// validateCluster checks what the settings of a cluster say of each other.
func (c *Config) validateCluster() error {
	if len(c.Join) == 0 && c.NodeAdvertise == "" && c.NodeListen == Off {
		return nil
	}
	if c.NodeListen == Off {
		return fmt.Errorf("node-listen: it is off; the nodes of a cluster must reach each other")
	}
	if len(c.Join) > 0 && c.NodeID == "" {
		return fmt.Errorf("node-id: a node that joins a cluster must have one, which no other node has")
	}
	host, _, err := net.SplitHostPort(c.NodeListen)
	if ip := net.ParseIP(host); c.NodeAdvertise == "" && err == nil && ip != nil && ip.IsUnspecified() {
		return fmt.Errorf("node-advertise: must be set, for other nodes cannot connect to %s", c.NodeListen)
	}
	if len(c.Join) > 0 && len(c.Others()) == 0 {
		return fmt.Errorf("join: %s is this node's own address", c.nodeAddress())
	}
	return nil
}

// Others are the nodes to join, without this one: all nodes may have the same list.
func (c *Config) Others() Addresses {
	return slices.DeleteFunc(slices.Clone(c.Join), func(addr string) bool { return addr == c.nodeAddress() })
}

// nodeAddress is the address that other nodes are told, as far as the settings say.
func (c *Config) nodeAddress() string { return cmp.Or(c.NodeAdvertise, c.NodeListen) }
