"""Eclipse Paho for Python against a broker: paho_client.py HOST:PORT 4|5. Ends with 0 when all
is as it should be."""
import queue
import sys

import paho.mqtt.client as mqtt
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

host, port = sys.argv[1].rsplit(":", 1)
version = int(sys.argv[2])
WAIT = 20


def connect(client_id, will=None):
    c = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, client_id=client_id, protocol=version)
    c.got, c.events = queue.Queue(), queue.Queue()
    c.on_connect = lambda c, u, f, reason, p: c.events.put(("connect", reason))
    c.on_subscribe = lambda c, u, mid, reasons, p: c.events.put(("subscribe", reasons))
    c.on_message = lambda c, u, m: c.got.put(m)
    if will:
        c.will_set(*will)
    c.connect(host, int(port))
    c.loop_start()
    what, reason = c.events.get(timeout=WAIT)
    assert what == "connect" and not reason.is_failure, reason
    return c


def subscribe(c, topic, qos):
    c.subscribe(topic, qos)
    what, reasons = c.events.get(timeout=WAIT)
    assert what == "subscribe" and reasons[0].value == qos, reasons


def expect(c, topic, payload, qos, retain=False):
    m = c.got.get(timeout=WAIT)
    assert (m.topic, m.payload, m.qos, bool(m.retain)) == (topic, payload, qos, retain), (m.topic, m.payload, m.qos, m.retain)
    return m


root = f"paho{version}"
sub, pub = connect(root + "-sub"), connect(root + "-pub")
for qos in (0, 1, 2):
    subscribe(sub, f"{root}/{qos}/#", qos)
    n = 200
    for i in range(n):
        pub.publish(f"{root}/{qos}/ü", b"%d" % i, qos).wait_for_publish(WAIT)
    for i in range(n):
        expect(sub, f"{root}/{qos}/ü", b"%d" % i, qos)

pub.publish(f"{root}/kept", b"old", 1, retain=True).wait_for_publish(WAIT)
pub.publish(f"{root}/kept", b"new", 1, retain=True).wait_for_publish(WAIT)
subscribe(sub, f"{root}/+", 1)
expect(sub, f"{root}/kept", b"new", 1, True)
pub.publish(f"{root}/kept", b"", 1, retain=True).wait_for_publish(WAIT)
expect(sub, f"{root}/kept", b"", 1)
late = connect(root + "-late")
subscribe(late, f"{root}/+", 1)

lost = connect(root + "-lost", (f"{root}/will", b"gone", 1))
lost.socket().close()
expect(sub, f"{root}/will", b"gone", 1)
expect(late, f"{root}/will", b"gone", 1)

if version == 5:
    p = Properties(PacketTypes.PUBLISH)
    p.ContentType, p.ResponseTopic, p.CorrelationData = "text/plain", "answers", b"\x00\xff"
    p.UserProperty = [("b", "1"), ("a", "2"), ("b", "3")]
    p.MessageExpiryInterval = 100
    pub.publish(f"{root}/p", b"x", 1, properties=p).wait_for_publish(WAIT)
    got = expect(sub, f"{root}/p", b"x", 1).properties
    assert (got.ContentType, got.ResponseTopic, got.CorrelationData) == ("text/plain", "answers", b"\x00\xff"), got
    assert got.UserProperty == p.UserProperty and 0 < got.MessageExpiryInterval <= 100, got

for c in (sub, pub, late, lost):
    c.disconnect()
    c.loop_stop()
