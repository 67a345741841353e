package admin

import (
	"encoding/json"
	"time"

	"polylog/core"
	"polylog/router"
	"polylog/router/state"
)

// Service is the name of the service.
const Service = "admin"

// The operations.
const (
	opAdmit  = "admit"  // may this node take part? the leader's answer: Admission
	opJoin   = "join"   // have this node take part; the leader's answer: Admission
	opInfo   = "info"   // any node's answer: Info
	opStatus = "status" // the named node's answer: Status
	opHealth = "health" // any node's answer: Health
	opRemove = "remove" // take the named node out; by the leader
	opDrain  = "drain"  // have the named node stop; by the leader
	opStop   = "stop"   // stop; the named node itself, asked by the leader
	opRecall = "recall" // look whether you still take part; asked by the leader
)

// request is what is sent.
type request struct {
	Op        string     `json:"op"`
	Node      string     `json:"node,omitempty"` // that it is about
	Force     bool       `json:"force,omitempty"`
	Compare   bool       `json:"compare,omitempty"` // health: compare the members' state too
	Hops      int        `json:"hops,omitempty"`    // how often it was passed on
	Candidate *candidate `json:"candidate,omitempty"`
}

const (
	// callTimeout bounds what one node may take for an answer.
	callTimeout = 10 * time.Second
	// compareTimeout is callTimeout where all data has to be read first.
	compareTimeout = time.Hour
)

func (r *request) timeout() time.Duration {
	if r.Compare {
		return compareTimeout
	}
	return callTimeout
}

// candidate is a router.Candidate on its way.
type candidate struct {
	ID        string            `json:"id"`
	Instance  string            `json:"instance"`
	ClusterID string            `json:"cluster,omitempty"`
	Addr      string            `json:"addr"`
	Endpoints map[string]string `json:"endpoints,omitempty"`
	Version   string            `json:"version"`
	MaxLevel  int               `json:"level"`
	New       bool              `json:"new"`
	Clock     int64             `json:"clock"` // ms
}

func fromCandidate(c *router.Candidate) *candidate {
	return &candidate{
		ID: c.ID, Instance: c.Instance, ClusterID: c.ClusterID, Addr: c.Addr, Endpoints: c.Endpoints,
		Version: c.Version, MaxLevel: c.MaxLevel, New: c.New, Clock: c.Clock.UnixMilli(),
	}
}

func (c *candidate) candidate() *router.Candidate {
	return &router.Candidate{
		Member: state.Member{
			ID: c.ID, Instance: c.Instance, Addr: c.Addr, Endpoints: c.Endpoints, Version: c.Version, MaxLevel: c.MaxLevel,
		},
		ClusterID: c.ClusterID, New: c.New, Clock: time.UnixMilli(c.Clock),
	}
}

// Admission is the leader's answer to a node that may take part.
type Admission struct {
	ClusterID string `json:"cluster"`
	Leader    string `json:"leader"`
	Member    bool   `json:"member"` // it takes part already
}

// Info is who takes part, as the node that was asked knows it.
type Info struct {
	ClusterID string   `json:"cluster"`
	Node      string   `json:"node"`             // that answers
	Leader    string   `json:"leader,omitempty"` // empty: it knows none
	Term      uint64   `json:"term"`
	Level     int      `json:"featureLevel"`
	Members   []Member `json:"members"`
}

// Member is a node of the cluster.
type Member struct {
	ID        string            `json:"id"`
	Addr      string            `json:"addr"`
	Voter     bool              `json:"voter"`
	Leader    bool              `json:"leader"`
	Instance  string            `json:"instance,omitempty"`
	Version   string            `json:"version,omitempty"`
	MaxLevel  int               `json:"maxFeatureLevel,omitempty"`
	Endpoints map[string]string `json:"endpoints,omitempty"`
}

// Status is what a node says of itself.
type Status struct {
	ID        string    `json:"id"`
	Instance  string    `json:"instance"`
	Version   string    `json:"version"`
	Leader    string    `json:"leader,omitempty"` // that it knows
	Term      uint64    `json:"term"`
	Committed uint64    `json:"committed"` // log indexes
	Applied   uint64    `json:"applied"`
	Last      uint64    `json:"last"`
	LogBytes  int64     `json:"logBytes"`
	DiskFree  int64     `json:"diskFreeBytes"` // -1: not known
	Clock     time.Time `json:"clock"`
	NotReady  []string  `json:"notReady,omitempty"` // why it cannot serve clients now
	Stopping  bool      `json:"stopping,omitempty"` // it is about to end
	// Mistaken is who of another cluster takes this node for one of that, in words.
	Mistaken     string `json:"mistaken,omitempty"`
	SegmentBytes int64  `json:"segmentBytes"` // the setting segment-size; 0: not known
}

// Health is how the cluster is.
type Health struct {
	Info
	Healthy  bool         `json:"healthy"`  // it serves, and no member has a problem
	Problems []string     `json:"problems"` // in words
	Nodes    []NodeHealth `json:"nodes"`    // in the order of Members
	Compared *Comparison  `json:"compared,omitempty"`
}

// Comparison is what the members' states hash to; equal states have equal digests.
type Comparison struct {
	Index   uint64   `json:"index"` // after which log entry
	Digests []Digest `json:"digests"`
}

// Digest is what one member's state hashes to, or why it could not say.
type Digest struct {
	ID     string `json:"id"`
	SHA256 string `json:"sha256,omitempty"` // in hex
	Error  string `json:"error,omitempty"`
}

// NodeHealth is what a member said, or why it said nothing.
type NodeHealth struct {
	ID     string  `json:"id"`
	Error  string  `json:"error,omitempty"`
	Status *Status `json:"status,omitempty"`
	Behind uint64  `json:"behind"` // entries that the leader has committed and it has not applied
}

// call sends one request on a stream and reads its answer into answer, a pointer.
func call(s core.Stream, r *request, answer any) error {
	b, err := json.Marshal(r)
	if err != nil {
		return core.E(core.Internal, "admin: %v", err)
	}
	if err := s.Send(b); err == nil {
		_ = s.CloseSend() // Recv says what is wrong
	}
	b, err = s.Recv()
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, answer); err != nil {
		return core.E(core.Invalid, "answer to %s: %v", r.Op, err)
	}
	return nil
}
