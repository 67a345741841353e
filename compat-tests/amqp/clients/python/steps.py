"""What an application program tells the runner: a line of JSON for each step."""

import json
import time
import traceback


def say(**line):
    print(json.dumps(line), flush=True)


def step(name):
    """Makes a function a step: it runs at once, and how it went is told."""

    def run(f):
        try:
            f()
        except Exception as e:  # noqa: BLE001 - whatever is thrown is the outcome
            traceback.print_exc()
            say(step=name, error=f"{type(e).__name__}: {e}")
        else:
            say(step=name)
        return f

    return run


def equal(got, want):
    if got != want:
        raise AssertionError(f"got {got!r}, want {want!r}")


def until(what, condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"{what}: not after {seconds} s")
        time.sleep(0.05)
