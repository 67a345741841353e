"""Server-sent events through sseclient, WebSockets through websockets."""

import asyncio
import json
import threading
import urllib.request

import sseclient
import websockets

from polylog import BASE, call


def events():
    """A stream goes on where it was cut, and with what is published meanwhile."""
    call("PUT", "/v1/topics/sse", {"partitions": 1}, want=201)

    def publish(*values):
        call("POST", "/v1/topics/sse/messages", {"messages": [{"value": v} for v in values]}, want=200)

    def read(n, then=None, headers=None, query="?from=start"):
        request = urllib.request.Request(BASE + "/v1/topics/sse/stream" + query, headers=headers or {})
        with urllib.request.urlopen(request, timeout=60) as r:
            stream = sseclient.SSEClient(r).events()
            got = []
            while len(got) < n:
                event = next(stream)
                got.append((event.id, json.loads(event.data)["value"]))
                if then and len(got) == 2:
                    threading.Thread(target=then).start()
            return got

    publish("a", "two\nlines: süß", "c")
    got = read(4, lambda: publish("later"))
    assert [v for _, v in got] == ["a", "two\nlines: süß", "c", "later"], got
    again = read(2, headers={"Last-Event-ID": got[1][0]}, query="")
    assert again == got[2:], (again, got)


async def sockets():
    call("PUT", "/v1/queues/ws.dead", {}, want=201)
    call("PUT", "/v1/queues/ws", {"deliveryLimit": 1, "deadLetterQueue": "ws.dead"}, want=201)
    call("POST", "/v1/queues/ws/messages", {"messages": [{"value": str(n)} for n in range(4)]}, want=200)
    url = BASE.replace("http", "ws", 1) + "/v1/queues/ws/ws"

    async def frame(ws):
        return json.loads(await asyncio.wait_for(ws.recv(), 30))

    async with websockets.connect(url) as ws:
        await ws.send(json.dumps({"credit": 3}))
        got = [(await frame(ws))["message"] for _ in range(3)]
        assert [m["value"] for m in got] == ["0", "1", "2"], got
        await ws.send(json.dumps({"ack": [got[0]["receipt"]], "id": 1}))
        answer = await frame(ws)
        assert answer == {"results": [{"status": 200}], "id": 1}, answer
        await ws.send(json.dumps({"nack": [got[1]["receipt"]], "deadLetter": True, "id": 2}))
        answer = await frame(ws)
        assert answer == {"results": [{"status": 200}], "id": 2}, answer
        await ws.ping()
    # What it held goes to the next one, uncounted.
    async with websockets.connect(url) as ws:
        await ws.send(json.dumps({"credit": 2}))
        got = sorted([(m["value"], m["deliveryCount"]) for m in [(await frame(ws))["message"] for _ in range(2)]])
        assert got == [("2", 1), ("3", 1)], got
        await ws.send("nonsense")
        assert (await frame(ws))["error"]["code"], "no error for nonsense"
    dead = call("GET", "/v1/queues/ws.dead/messages", want=200).json()["messages"]
    assert [m["value"] for m in dead] == ["1"], dead
    try:
        async with websockets.connect(url, additional_headers={"Origin": "https://evil.example"}):
            raise AssertionError("a page of another site opened a WebSocket")
    except websockets.InvalidStatus as e:
        assert e.response.status_code == 403, e


events()
asyncio.run(sockets())
