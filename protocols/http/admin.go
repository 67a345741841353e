package httpd

import (
	"time"

	"polylog/core"
	"polylog/router"
)

// adminCalls are the calls that look at the cluster and its nodes rather than at a namespace. None
// changes anything.
var adminCalls = []struct {
	method, path string
	do           handler
}{
	{"GET", "/v1/admin/overview", getOverview},
	{"GET", "/v1/admin/health", getHealth},
	{"GET", "/v1/admin/metrics", getMetrics},
	{"GET", "/v1/admin/connections", listConnections},
	{"GET", "/v1/admin/groups", listGroups},
	{"GET", "/v1/admin/groups/{group}", getGroup},
}

// overviewJSON is a node, and what it knows of its cluster.
type overviewJSON struct {
	Node       string       `json:"node"`
	Version    string       `json:"version"`
	Started    time.Time    `json:"started"`
	Now        time.Time    `json:"now"`
	ClusterID  string       `json:"clusterId"`
	Leader     string       `json:"leader,omitempty"` // none where it knows none
	Term       int64        `json:"term"`
	Level      int          `json:"featureLevel"`
	Ready      bool         `json:"ready"`
	Reasons    []string     `json:"reasons,omitempty"` // why it is not
	Topics     int          `json:"topics"`            // of all namespaces
	Partitions int          `json:"partitions"`
	Members    []memberJSON `json:"members"`
}

// memberJSON is a node of the cluster.
type memberJSON struct {
	ID        string            `json:"id"`
	Voter     bool              `json:"voter"`
	Endpoints map[string]string `json:"endpoints,omitempty"` // host:port by listener
}

func getOverview(c *call) error {
	if err := c.onlyQuery(); err != nil {
		return err
	}
	if err := c.mayCluster(); err != nil {
		return err
	}
	info := c.router.Cluster()
	o := overviewJSON{
		Node: info.NodeID, Version: c.srv.opts.Version, Started: c.srv.started.UTC(), Now: c.srv.opts.Clock().UTC(),
		ClusterID: info.ClusterID, Leader: info.Leader.ID, Term: int64(info.Term), Level: c.router.FeatureLevel(),
		Reasons: c.srv.opts.Ready(), Members: []memberJSON{},
	}
	o.Ready = len(o.Reasons) == 0
	namespaces, err := c.router.Namespaces()
	if err != nil {
		return err
	}
	going := map[string]bool{}
	for _, n := range namespaces {
		going[n.Name] = n.Deleted
	}
	for _, t := range c.router.Topics("") {
		if !going[t.Name.Namespace] {
			o.Topics++
			o.Partitions += len(t.Partitions)
		}
	}
	for _, m := range info.Members {
		o.Members = append(o.Members, memberJSON{m.ID, m.Voter, m.Endpoints})
	}
	return c.answer(200, o)
}

// mayCluster asks for the right to look at the cluster.
func (c *call) mayCluster() error {
	return c.router.Authorize(c.principal, router.OpDescribe, router.Resource{Kind: router.ResourceCluster})
}

// getHealth asks all members how they are.
func getHealth(c *call) error {
	if err := c.onlyQuery(); err != nil {
		return err
	}
	if err := c.mayCluster(); err != nil {
		return err
	}
	if c.srv.opts.Health == nil {
		return core.E(core.Unsupported, "this node does not look at the others' health")
	}
	h, err := c.srv.opts.Health(c.ctx)
	if err != nil {
		return err
	}
	return c.answer(200, h)
}
