"""Users, with paho-mqtt: login.py MQTT MANAGEMENT PROTOCOL, the addresses of a broker as ../login.sh makes it, and 4 or 5."""

import base64
import queue
import sys
import urllib.request

import paho.mqtt.client as mqtt
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

host, port = sys.argv[1].rsplit(":", 1)
management, protocol = sys.argv[2], int(sys.argv[3])
v5 = protocol == 5


class Client:
    """A connection whose events come one by one, as (what, details…)."""

    def __init__(self, name, user=None, password=None, keep=False):
        self.events = queue.Queue()
        how = {} if v5 else {"clean_session": not keep}
        self.c = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, client_id=name, protocol=mqtt.MQTTv5 if v5 else mqtt.MQTTv311, reconnect_on_failure=False, **how)
        self.c.on_connect = lambda c, u, flags, code, p: self.events.put(("connected", str(code)))
        self.c.on_disconnect = lambda c, u, flags, code, p: self.events.put(("ended", str(code)))
        self.c.on_publish = lambda c, u, mid, code, p: self.events.put(("published", str(code)))
        self.c.on_subscribe = lambda c, u, mid, codes, p: self.events.put(("subscribed", str(codes[0])))
        self.c.on_message = lambda c, u, m: self.events.put(("message", m.topic, m.payload))
        if user is not None:
            self.c.username_pw_set(user, password)

    def connect(self):
        self.c.connect(host, int(port))
        self.c.loop_start()
        return self.next()

    def next(self):
        return self.events.get(timeout=30)

    def expect(self, *want):
        got = self.next()
        assert got == want, f"{got}, want {want}"

    def close(self):
        self.c.disconnect()
        self.c.loop_stop()


def refused(want, *login):
    c = Client("refused", *login)
    got = c.connect()
    assert got == ("connected", want), f"{login}: {got}, want {want}"
    c.c.loop_stop()


wrong = "Bad user name or password"
refused(wrong, "alice", "wrong")
refused(wrong, "nobody", "alices")
refused(wrong, "guest", "guest")
refused("Not authorized")

alice = Client("alice", "alice", "alices")
alice_is = alice.connect()
assert alice_is == ("connected", "Success"), alice_is
alice.c.subscribe("my/#", 1)
alice.expect("subscribed", "Granted QoS 1")
alice.c.subscribe("secret/#", 1)
alice.expect("subscribed", "Not authorized" if v5 else "Unspecified error")
alice.c.publish("my/topic", "hello", 1)
got = {alice.next(), alice.next()}
assert got == {("published", "Success"), ("message", "my/topic", b"hello")}, got
if v5:
    alice.c.publish("secret/topic", "no", 1)
    alice.expect("published", "Not authorized")
else:  # the protocol has no other way to say it
    other = Client("other", "alice", "alices")
    assert other.connect() == ("connected", "Success")
    other.c.publish("secret/topic", "no", 1)
    assert other.next()[0] == "ended"
    other.c.loop_stop()

# Another user does not get her session.
thief = Client("alice", "bob", "bobs")
got = thief.connect()
assert got == ("connected", "Not authorized"), got
thief.c.loop_stop()

# The connection ends with its user.
request = urllib.request.Request(f"http://{management}/api/users/alice", method="DELETE")
request.add_header("Authorization", "Basic " + base64.b64encode(b"admin:admins").decode())
urllib.request.urlopen(request).close()
what, why = alice.next()
assert what == "ended" and (why == "Administrative action" or not v5), why
alice.c.loop_stop()
print("ok")
