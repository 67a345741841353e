"""What the tests in Python have in common: calls of the broker, and an endpoint that webhooks go to."""

import http.server
import json
import os
import queue
import threading
import urllib.error
import urllib.request

BASE = "http://" + os.environ["HTTP"]


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    def json(self):
        return json.loads(self.body)


def call(method, path, body=None, headers=None, want=None):
    """One request. A body that is not bytes goes as JSON. want is the status that must come."""
    headers = dict(headers or {})
    if body is not None and not isinstance(body, bytes):
        body = json.dumps(body).encode()
        headers.setdefault("Content-Type", "application/json")
    request = urllib.request.Request(BASE + path, data=body, headers=headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=60) as r:
            answer = Answer(r.status, r.headers, r.read())
    except urllib.error.HTTPError as e:
        answer = Answer(e.code, e.headers, e.read())
    if want is not None and answer.status != want:
        raise AssertionError(f"{method} {path}: {answer.status}, want {want}: {answer.body[:500]}")
    return answer


class Sink:
    """An endpoint: each request is in requests, as (path, headers, body). answer says what it is
    answered with; without one it is 200."""

    def __init__(self, answer=None):
        self.requests = queue.Queue()
        sink = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                status = answer(self.headers, body) if answer else 200
                sink.requests.put((self.path, self.headers, body))
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def do_OPTIONS(self):
                self.send_response(200)
                self.send_header("WebHook-Allowed-Origin", self.headers["WebHook-Request-Origin"])
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def next(self):
        return self.requests.get(timeout=30)
