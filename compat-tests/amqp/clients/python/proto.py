"""The conversation with the runner, as clients/proto describes it, for the Python drivers."""

import json
import sys


class Refused(Exception):
    """What the broker has refused, with its code."""

    def __init__(self, code, text):
        super().__init__(text)
        self.code, self.text = code, text


def say(line):
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def answer(request, do):
    """Does one operation and says how it went."""
    try:
        say({"id": request["id"], "ok": do(request) or {}})
    except Refused as e:
        say({"id": request["id"], "error": {"code": e.code, "text": e.text}})
    except NotImplementedError:
        say({"id": request["id"], "unsupported": True})
    except Exception as e:  # noqa: BLE001 - whatever the library throws is the outcome
        say({"id": request["id"], "error": {"code": 0, "text": f"{type(e).__name__}: {e}"}})
