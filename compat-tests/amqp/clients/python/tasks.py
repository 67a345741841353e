"""The Celery application that celery_app.py puts to work."""

import os
import time

from celery import Celery
from celery.exceptions import Reject
from kombu import Exchange, Queue

app = Celery("tasks", broker=os.environ["BROKER"], backend="file://" + os.environ["RESULTS"])
app.conf.update(
    task_acks_late=True,
    worker_prefetch_multiplier=4,
    broker_connection_retry_on_startup=True,
    task_default_queue="celery.work",
    task_queues=[
        Queue("celery.work", Exchange("celery.work"), routing_key="celery.work"),
        Queue("celery.priority", Exchange("celery.work"), routing_key="celery.priority", max_priority=10),
        Queue("celery.dying", Exchange("celery.work"), routing_key="celery.dying", queue_arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "celery.dead"}),
        Queue("celery.quorum", Exchange("celery.work"), routing_key="celery.quorum", queue_arguments={"x-queue-type": "quorum"}),
    ],
    task_routes={"tasks.reject": {"queue": "celery.dying"}},
    worker_cancel_long_running_tasks_on_connection_loss=True,
    result_chord_join_timeout=60,
)


@app.task
def add(x, y):
    return x + y


@app.task
def total(numbers):
    return sum(numbers)


@app.task(bind=True, max_retries=4)
def flaky(self, succeed_at):
    """Fails until it has been retried often enough."""
    if self.request.retries < succeed_at:
        raise self.retry(countdown=0.3)
    return self.request.retries


@app.task(bind=True, max_retries=1)
def hopeless(self):
    raise self.retry(countdown=0.1, exc=ValueError("hopeless"))


@app.task(bind=True)
def reject(self):
    raise Reject("not wanted", requeue=False)


@app.task
def slow(seconds):
    time.sleep(seconds)
    return "done"
