"""The conversation with the runner, as clients/proto describes it, for the Python drivers."""

import sys
import threading
from concurrent.futures import ThreadPoolExecutor

_out = threading.Lock()


class Unsupported(Exception):
    """The library has no such thing."""


def say(line):
    with _out:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


def words(args):
    return "".join(f" {k}={v}" for k, v in args.items())


def parse(ws):
    return dict(w.split("=", 1) for w in ws if "=" in w)


def assigned(member, parts):
    say(f"! assigned member={member} parts={','.join(sorted(parts))}")


def rec(member, topic, part, offset, value):
    say(f"! rec member={member} part={topic}-{part} offset={offset} value={name(value)}")


def name(value):
    return value.decode().rstrip(".")


def key(i):
    return f"k{i}".encode()


def value(i):
    return (f"v{i}" + "." * 100).encode()


def header(i):
    return str(i).encode()


def answer(id, f, args):
    try:
        out = f(args)
        say(f"{id} ok{words(out or {})}")
    except Unsupported:
        say(f"{id} unsupported")
    except Exception as e:  # noqa: BLE001 - whatever the library throws is the outcome
        say(f"{id} err {type(e).__name__}: {' '.join(str(e).split())}")


def serve(ops):
    """Serves standard input until it ends, operations side by side."""
    pool = ThreadPoolExecutor(8)
    for line in sys.stdin:
        ws = line.split()
        if len(ws) < 2:
            continue
        f = ops.get(ws[1])
        if f is None:
            say(f"{ws[0]} unsupported")
        else:
            pool.submit(answer, ws[0], f, parse(ws[2:]))
