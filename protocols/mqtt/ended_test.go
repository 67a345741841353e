package mqtt

import (
	"testing"

	"github.com/mochi-mqtt/server/v2/packets"

	"polylog/core"
	"polylog/router"
	"polylog/router/routertest"
)

// TestEndedByAnAdministrator: a session ends on any node, with its client's connection, which is told
// why, and all that waited for it; the will is published at once (sections 3.1.2.5 and 3.1.3.2.2).
func TestEndedByAnAdministrator(t *testing.T) {
	r1, l1 := routertest.Start(t, nil)
	r2, _ := routertest.Join(t, l1, "2", nil)
	b1, b2 := serveOn(t, r1, nil), serveOn(t, r2, nil)
	watch, pub := connected(t, b1, "watch", 5), connected(t, b1, "pub", 5)
	watch.mustSubscribe("w/#", 1)
	end := func(r *router.Router, id string) {
		t.Helper()
		if err := r.EndMQTTClient(t.Context(), router.Principal{}, core.TopicName(id)); err != nil {
			t.Fatal(err)
		}
	}
	again := func(id string) {
		t.Helper()
		c := keeping(t, b2, id, false, nil) // there is no session
		c.quiet()
		c.leave()
		end(r1, id)
	}

	dev := willing(t, b2, "dev", 1000, 500, nil)
	dev.mustSubscribe("a/#", 1)
	dev.mustSubscribe("$share/g/b", 1)
	pub.publish("a/x", "1", 1, 1)
	dev.expect(packets.Publish) // and it never acknowledges
	end(r1, "dev")
	dev.expectEnd(packets.ErrAdministrativeAction.Code)
	watch.expectMessage("w/dev", "gone")
	pub.publish("a/x", "2", 1, 2)
	again("dev")

	away := willing(t, b2, "away", 1000, 500, nil)
	away.mustSubscribe("a/#", 2)
	away.disconnect(withWill)
	pub.publish("a/x", "3", 1, 3)
	watch.quiet()
	end(r1, "away")
	watch.expectMessage("w/away", "gone")
	again("away")

	old := connected(t, b2, "old", 4) // clean: nothing of it is stored
	end(r1, "old")
	old.expectEnd(0)
	if err := r2.EndMQTTClient(t.Context(), router.Principal{}, core.TopicName("old")); core.KindOf(err) != core.NotFound {
		t.Errorf("%v, want that it is not there", err)
	}
	all, err := r1.MQTTClients(core.DefaultNamespace, "", 10)
	if err != nil || len(all) != 2 || all[0].Name.Name != "pub" || all[1].Name.Name != "watch" {
		t.Errorf("%d clients, %v; want pub and watch", len(all), err)
	}
	if n := b2.metrics.unreadable.Load(); n != 0 {
		t.Errorf("%d errors of storage", n)
	}
}
