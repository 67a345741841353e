package manage

import (
	"fmt"
	"maps"
	"os"
	"runtime"
	"strings"
	"time"

	"polylog/core"
)

// exchangeTypes are those that can be declared.
var exchangeTypes = func() (all []object) {
	for t := range strings.FieldsSeq("direct fanout headers topic x-consistent-hash x-delayed-message x-modulus-hash x-random") {
		all = append(all, object{"name": t, "description": "exchange of type " + t, "enabled": true})
	}
	return all
}()

func (c *call) listeners() []object {
	all := []object{}
	for _, l := range c.opts.Listeners() {
		all = append(all, object{
			"node": c.node(), "protocol": l.Protocol, "ip_address": l.Addr.Addr().String(), "port": l.Addr.Port(), "socket_opts": []any{}, "tls": l.TLS,
		})
	}
	return all
}

func overview(c *call) (any, error) {
	namespaces, err := c.namespaces()
	if err != nil {
		return nil, err
	}
	o := object{
		"management_version": version, "rabbitmq_version": version, "product_name": "Polylog", "product_version": version,
		"cluster_name": c.router.Cluster().ClusterID, "node": c.node(), "erlang_version": "0", "erlang_full_version": runtime.Version(),
		"rates_mode": "none", "disable_stats": false, "enable_queue_totals": false, "is_op_policy_updating_enabled": true,
		"statistics_db_event_queue": 0, "exchange_types": exchangeTypes, "listeners": c.listeners(), "contexts": []any{},
		"sample_retention_policies": object{"global": []int{}, "basic": []int{}, "detailed": []int{}},
		"message_stats":             object{}, "churn_rates": churn,
		"cluster_tags": []any{}, "node_tags": []any{}, "default_queue_type": "classic", "release_series_support_status": "supported",
	}
	queues, err := c.numQueues(namespaces)
	if err != nil {
		return nil, err
	}
	if needs(c.columns(), []string{"queue_totals"}) && !c.flag("disable_stats") {
		if o["queue_totals"], err = c.totals(namespaces, queues); err != nil {
			return nil, err
		}
	}
	exchanges := 0
	for _, ns := range namespaces {
		xs, err := c.exchangesOf(ns)
		if err != nil {
			return nil, err
		}
		exchanges += len(xs)
	}
	if !c.monitors() {
		o["listeners"] = []object{}
	}
	connections, channels, consumers := c.counts()
	o["object_totals"] = object{"connections": connections, "channels": channels, "consumers": consumers, "exchanges": exchanges, "queues": queues}
	return o, nil
}

// churn is not measured.
var churn = func() object {
	o := object{}
	for what := range strings.FieldsSeq("connection_created connection_closed channel_created channel_closed queue_created queue_declared queue_deleted") {
		o[what] = 0
		o[what+"_details"] = object{"rate": 0.0}
	}
	return o
}()

// jsonOfNode is a node. Of others no more is known than whether they are there.
func (c *call) jsonOfNode(m *core.Member) object {
	o := object{"name": nodeName(m.ID), "type": "disc", "running": !m.Away, "partitions": []any{}, "cluster_links": []any{}, "being_drained": false}
	if !m.Voter {
		o["type"] = "ram"
	}
	if m.ID != c.router.Cluster().NodeID {
		return o
	}
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	connections, _, _ := c.counts()
	maps.Copy(o, object{
		"os_pid": fmt.Sprint(os.Getpid()), "uptime": time.Since(c.opts.Started).Milliseconds(), "processors": runtime.NumCPU(), "run_queue": 0,
		"mem_used": int64(mem.Sys - mem.HeapReleased), "mem_alarm": false, "disk_free_alarm": false,
		"proc_used": runtime.NumGoroutine(), "sockets_used": connections, "rates_mode": "none", "net_ticktime": 0,
		"exchange_types": exchangeTypes, "auth_mechanisms": mechanisms, "applications": []any{}, "contexts": []any{}, "enabled_plugins": []any{},
		"config_files": []any{}, "log_files": []any{}, "db_dir": "",
	})
	return o
}

var mechanisms = []object{
	{"name": "PLAIN", "description": "SASL PLAIN authentication mechanism", "enabled": true},
	{"name": "AMQPLAIN", "description": "AMQPLAIN mechanism", "enabled": true},
	{"name": "ANONYMOUS", "description": "SASL ANONYMOUS authentication mechanism", "enabled": true},
}

func listNodes(c *call) (any, error) {
	ms := c.router.Cluster().Members
	all := make([]entry, len(ms))
	for i := range ms {
		all[i] = entry{nodeName(ms[i].ID), func(bool) (object, error) { return c.jsonOfNode(&ms[i]), nil }}
	}
	sortEntries(all)
	return c.list(all)
}

func getNode(c *call) (any, error) {
	for _, m := range c.router.Cluster().Members {
		if nodeName(m.ID) == c.params.Get("node") {
			return c.jsonOfNode(&m), nil
		}
	}
	return nil, errNotFound
}
