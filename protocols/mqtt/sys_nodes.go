package mqtt

import (
	"context"
	"encoding/json"
	"maps"
	"strconv"
	"strings"
	"sync"
	"time"

	"polylog/core"
)

// What the nodes say of themselves under $SYS each of them gives to the others' clients too, below
// $SYS/broker/nodes/ID/, and some of it summed up below $SYS/broker/cluster/. A node asks the others
// each interval while a client of its own wants to know.

const (
	sysService    = "mqtt-sys"
	sysAskTimeout = time.Second
	sysBroker     = sysPrefix + "broker/"
	sysNodes      = sysBroker + "nodes/"
	sysCluster    = sysBroker + "cluster/"
)

// summed are the names that make sense as sums.
var summed = [...]string{
	"clients/connected", "subscriptions/count", "messages/received", "messages/sent", "bytes/received", "bytes/sent",
	"publish/messages/received", "publish/messages/sent", "publish/messages/dropped",
}

// serve gives another node what this one says of itself.
func (y *sysTopics) serve(_ string, s core.Stream) error {
	own := map[string]string{}
	for _, v := range y.own() {
		own[v.name] = v.value
	}
	b, err := json.Marshal(own)
	if err != nil {
		return err
	}
	return s.Send(b)
}

// ask asks the other nodes, all at once, and keeps what they say; of one that does not answer nothing.
func (y *sysTopics) ask() {
	ctx, cancel := context.WithTimeout(y.srv.ctx, sysAskTimeout)
	defer cancel()
	var mu sync.Mutex
	var asked sync.WaitGroup
	info := y.srv.router.Cluster()
	others := map[string]map[string]string{}
	for _, m := range info.Members {
		if m.ID == info.NodeID {
			continue
		}
		asked.Go(func() {
			s, err := y.srv.router.OpenPeer(ctx, m.ID, sysService)
			if err != nil {
				return
			}
			b, err := s.Recv()
			said := map[string]string{}
			if err == nil && json.Unmarshal(b, &said) == nil {
				mu.Lock()
				defer mu.Unlock()
				others[m.ID] = said
			}
		})
	}
	asked.Wait()
	y.setOthers(others)
}

func (y *sysTopics) setOthers(others map[string]map[string]string) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.others = others
}

// values are all messages, as they are now, or when the others were asked.
func (y *sysTopics) values() []sysValue {
	vs := y.own()
	own := make(map[string]string, len(vs))
	for _, v := range vs {
		own[v.name] = v.value
	}
	y.mu.Lock()
	nodes := map[string]map[string]string{y.srv.router.Cluster().NodeID: own}
	maps.Copy(nodes, y.others)
	y.mu.Unlock()
	sums := map[string]int64{}
	for id, said := range nodes {
		for name, value := range said {
			vs = append(vs, sysValue{sysNodes + id + "/" + strings.TrimPrefix(name, sysBroker), value})
		}
		for _, name := range summed {
			n, _ := strconv.ParseInt(said[sysBroker+name], 10, 64) // a node of another version may not say it
			sums[name] += n
		}
	}
	number := func(name string, n int64) { vs = append(vs, sysValue{name, strconv.FormatInt(n, 10)}) }
	for _, name := range summed {
		number(sysCluster+name, sums[name])
	}
	away := y.srv.router.MQTTAway()
	number(sysBroker+"clients/disconnected", away)
	number(sysBroker+"clients/total", away+sums["clients/connected"])
	return vs
}
