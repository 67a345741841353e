package manage

import (
	"fmt"
	"maps"
	"strings"

	"polylog/core"
	"polylog/protocols/amqp/spec"
)

// Health checks answer 200 with status ok, or 503 with status failed and a reason.

var healthy = object{"status": "ok"}

// failed is an answer of 503 with what else is to be said.
func failed(reason string, more object) (any, error) {
	o := object{"status": "failed", "reason": reason}
	maps.Copy(o, more)
	return nil, &unhealthy{o}
}

// unhealthy is a check that failed.
type unhealthy struct{ object }

// Error is the reason.
func (u *unhealthy) Error() string { return fmt.Sprint(u.object["reason"]) }

// ready checks that the broker can serve.
func ready(c *call) (any, error) {
	if reasons := c.opts.Ready(); len(reasons) > 0 {
		return failed(strings.Join(reasons, "; "), nil)
	}
	return healthy, nil
}

// alwaysHealthy is for what cannot be wrong here.
func alwaysHealthy(*call) (any, error) { return healthy, nil }

// aliveness publishes a message to a queue of its own and gets it.
func aliveness(c *call) (any, error) {
	if _, err := c.namespace(); err != nil {
		return nil, err
	}
	const queue = "aliveness-test"
	err := c.as(c.params.Get("vhost"), func(k *client) error {
		if err := k.declareQueue(&queueJSON{Name: queue}); err != nil {
			return err
		}
		routed, err := k.publishConfirmed(&spec.BasicPublish{RoutingKey: queue, Mandatory: true}, &spec.Properties{}, []byte("test_message"))
		if err != nil {
			return err
		}
		ok, some, _, err := k.get(queue)
		if err != nil {
			return err
		}
		if !routed || !some {
			_, err := failed(fmt.Sprintf("the message did not come back: routed %v, got %v", routed, some), nil)
			return err
		}
		return k.send(1, &spec.BasicAck{DeliveryTag: ok.DeliveryTag})
	})
	if err != nil {
		return nil, err
	}
	return healthy, nil
}

func portListener(c *call) (any, error) {
	want, err := port(c.params.Get("port"))
	if err != nil {
		return nil, err
	}
	ports := []uint16{}
	for _, l := range c.opts.Listeners() {
		if l.Addr.Port() == want {
			return object{"status": "ok", "port": want}, nil
		}
		ports = append(ports, l.Addr.Port())
	}
	return failed("No active listener", object{"missing": want, "ports": ports})
}

func protocolListener(c *call) (any, error) {
	want := c.params.Get("protocol")
	protocols := []string{}
	for _, l := range c.opts.Listeners() {
		if l.Protocol == want || want == "amqp091" && l.Protocol == "amqp" {
			return object{"status": "ok", "protocol": want}, nil
		}
		protocols = append(protocols, l.Protocol)
	}
	return failed("No active listener", object{"missing": want, "protocols": protocols})
}

// quorumCritical fails when the cluster could not do without this node.
func quorumCritical(c *call) (any, error) {
	info := c.router.Cluster()
	voters, there := 0, 0
	mine := core.Member{}
	for _, m := range info.Members {
		if m.ID == info.NodeID {
			mine = m
		}
		if m.Voter {
			voters++
			if !m.Away {
				there++
			}
		}
	}
	switch {
	case voters == 1:
		return object{"status": "ok", "reason": "single node cluster"}, nil
	case mine.Voter && there-1 < voters/2+1:
		return failed("without this node the cluster would have no quorum", object{"queues": []any{}})
	}
	return healthy, nil
}
