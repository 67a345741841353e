"""A real Celery worker and an application that gives it work: retries, groups, chains, chords,
countdowns, revokes, priorities, dead letters, remote control, and a worker that is killed."""

import os
import signal
import subprocess
import sys
import tempfile

ADDR, WORK = sys.argv[1], sys.argv[2]
results = tempfile.mkdtemp(prefix="celery-", dir=WORK)
os.environ["BROKER"], os.environ["RESULTS"] = f"amqp://guest:guest@{ADDR}//", results

import celery  # noqa: E402 - the environment comes first
from celery import chain, chord, group  # noqa: E402
from kombu import Connection  # noqa: E402

import tasks  # noqa: E402
from steps import equal, say, step, until  # noqa: E402

say(version=celery.__version__)
HERE = os.path.dirname(os.path.abspath(__file__))


def worker(name):
    log = open(os.path.join(WORK, f"celery-{name}.log"), "w")
    return subprocess.Popen(
        [sys.executable, "-m", "celery", "-A", "tasks", "worker", "-n", name + "@localhost", "-c", "4", "-P", "prefork", "-l", "INFO"],
        cwd=HERE, stdout=log, stderr=log, start_new_session=True,
    )


def kill(p):
    os.killpg(p.pid, signal.SIGKILL)
    p.wait()


first = worker("one")


@step("worker starts")
def _():
    until("a ping", lambda: tasks.app.control.ping(timeout=1))


@step("tasks")
def _():
    equal([tasks.add.delay(i, i).get(timeout=60) for i in range(20)], [2 * i for i in range(20)])


@step("many tasks")
def _():
    equal(group(tasks.add.s(i, 1) for i in range(300))().get(timeout=120), [i + 1 for i in range(300)])


@step("retries")
def _():
    equal(tasks.flaky.delay(3).get(timeout=60), 3)
    try:
        tasks.hopeless.delay().get(timeout=60)
    except ValueError:
        pass
    else:
        raise AssertionError("a hopeless task succeeded")


@step("chain")
def _():
    equal(chain(tasks.add.s(1, 2), tasks.add.s(3), tasks.add.s(4)).delay().get(timeout=60), 10)


@step("chord")
def _():
    equal(chord((tasks.add.s(i, i) for i in range(10)), tasks.total.s()).delay().get(timeout=90), 90)
    # One of a chord whose parts are retried.
    equal(chord([tasks.flaky.s(1), tasks.flaky.s(2), tasks.add.s(1, 1)], tasks.total.s()).delay().get(timeout=90), 5)


@step("countdown and expiry")
def _():
    late = tasks.add.apply_async((1, 1), countdown=1)
    equal(late.get(timeout=60), 2)
    expired = tasks.add.apply_async((1, 1), countdown=2, expires=1)
    until("expiry", lambda: expired.state == "REVOKED")


@step("revoke")
def _():
    r = tasks.add.apply_async((1, 1), countdown=3)
    tasks.app.control.revoke(r.id)
    until("revocation", lambda: r.state == "REVOKED")


@step("priorities")
def _():
    got = [tasks.add.apply_async((1, p), queue="celery.priority", priority=p) for p in (1, 9, 5)]
    equal([r.get(timeout=60) for r in got], [2, 10, 6])


@step("quorum queue")
def _():
    equal([tasks.add.apply_async((1, i), queue="celery.quorum").get(timeout=60) for i in range(5)], [1, 2, 3, 4, 5])


@step("reject to a dead letter queue")
def _():
    with Connection(os.environ["BROKER"]) as c:
        q = c.SimpleQueue("celery.dead")
        tasks.reject.delay()
        m = q.get(timeout=30)
        equal(m.headers["x-death"][0]["reason"], "rejected")
        m.ack()
        q.close()


@step("remote control")
def _():
    inspect = tasks.app.control.inspect(timeout=10)
    equal(list(inspect.active_queues()), ["one@localhost"])
    tasks.app.control.add_consumer("celery.added", reply=True)
    equal(tasks.add.apply_async((1, 1), queue="celery.added").get(timeout=60), 2)
    equal("tasks.add" in inspect.registered()["one@localhost"], True)


@step("events")
def _():
    seen = []
    tasks.app.control.enable_events()
    with tasks.app.connection() as c:
        receiver = tasks.app.events.Receiver(c, handlers={"task-succeeded": lambda e: (seen.append(e), setattr(receiver, "should_stop", True))})
        r = tasks.add.apply_async((2, 2), countdown=1)
        receiver.capture(limit=None, timeout=30, wakeup=False)
        equal(r.get(timeout=30), 4)
    equal(len(seen) >= 1, True)


@step("a killed worker's task is done by another")
def _():
    r = tasks.slow.delay(3)
    until("the task to begin", lambda: any(t["id"] == r.id for t in (tasks.app.control.inspect(timeout=2).active() or {}).get("one@localhost", [])))
    kill(first)
    second = worker("two")
    try:
        equal(r.get(timeout=90), "done")
    finally:
        kill(second)


if first.poll() is None:
    kill(first)
