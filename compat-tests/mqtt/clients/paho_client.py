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


def connect(client_id, will=None, keep=False, present=False):
    c = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, client_id=client_id, protocol=version,
                    clean_session=None if version == 5 else not keep)
    c.got, c.events = queue.Queue(), queue.Queue()
    c.on_connect = lambda c, u, flags, reason, p: c.events.put((flags.session_present, reason))
    c.on_subscribe = lambda c, u, mid, reasons, p: c.events.put(("subscribe", reasons))
    c.on_message = lambda c, u, m: c.got.put(m)
    if will:
        c.will_set(*will)
    more = {}
    if version == 5:
        more = {"clean_start": not keep, "properties": Properties(PacketTypes.CONNECT)}
        if keep:
            more["properties"].SessionExpiryInterval = 3600
    c.connect(host, int(port), **more)
    c.loop_start()
    resumed, reason = c.events.get(timeout=WAIT)
    assert resumed == present and not reason.is_failure, (resumed, reason)
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

connect(root + "-session").disconnect()  # what an earlier run has left ends here
session = connect(root + "-session", keep=True)
subscribe(session, f"{root}/session/1", 1)
subscribe(session, f"{root}/session/2", 2)
session.disconnect()
session.loop_stop()
for i in range(50):
    for qos in (1, 2):
        pub.publish(f"{root}/session/{qos}", b"%d" % i, qos).wait_for_publish(WAIT)
session = connect(root + "-session", keep=True, present=True)
came = [session.got.get(timeout=WAIT) for _ in range(100)]
for qos in (1, 2):
    assert [m.payload for m in came if m.qos == qos] == [b"%d" % i for i in range(50)], qos

late.got = sub.got
for c in (sub, late):
    subscribe(c, f"$share/workers/{root}-shared/#", 1)
for i in range(100):
    pub.publish(f"{root}-shared/x", b"%d" % i, 1).wait_for_publish(WAIT)
came = {sub.got.get(timeout=WAIT).payload for _ in range(100)}
assert len(came) == 100, len(came)

for c in (sub, pub, late, lost, session):
    c.disconnect()
    c.loop_stop()
