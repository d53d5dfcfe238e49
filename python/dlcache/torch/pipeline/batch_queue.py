# SPDX-License-Identifier: Apache-2.0
"""Feed: gives batches to workers, ahead of the user, and hands them out in their sequence.

    plan of this iteration  |0 1 2 3 4 5 6 7 8|        plan of the next one, as predicted  |0 1 2 3
                             `---' `-' `-----'                                              `-----'
                            handed  finished  with workers; then, with workers that are kept, these

A feed lasts for many iterations, one at a time. begin() takes over what was made ahead if it is of
the very plan that begins; anything else is forgotten.

(F1) At most workers x prefetch batches are with workers, finished or being pinned.
(F2) A batch of another plan than the current one is never handed out.
(F3) Whatever stops next() but the error of a batch (an interrupt, the death of a worker, a timeout)
     ends the workers; begin() starts new ones.

One thread at a time may use a feed.
"""

from __future__ import annotations

import queue
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import torch

from dlcache.torch.order.batch_plans import Plan
from dlcache.torch.order.epoch_state import Epochs
from dlcache.torch.order.order_client import Leader
from dlcache.torch.pipeline import worker
from dlcache.torch.pipeline.worker import Done, Job, Task
from dlcache.torch.pipeline.worker_pool import Pool

__all__ = ["Feed", "Local", "Pinner"]


class Pinner:
    """Copies batches into page-locked memory, in a thread, as torch's loader does."""

    def __init__(self, device: str | None) -> None:
        self._device = device
        self._in: queue.SimpleQueue = queue.SimpleQueue()
        self._out: queue.SimpleQueue = queue.SimpleQueue()
        current = torch.cuda.current_device() if torch.cuda.is_available() else None
        self._thread = threading.Thread(target=_pin_all, name="dlcache-pin", daemon=True,
                                        args=(self._in, self._out, device, current))
        self._thread.start()
        self._end = weakref.finalize(self, self._in.put, None)

    def put(self, key: Any, done: Done) -> None:
        self._in.put((key, done))

    def get(self, wait: bool) -> tuple[Any, Done] | None:
        """A batch that was put in, pinned, or with the error that came of it."""
        try:
            return self._out.get(block=wait)
        except queue.Empty:
            return None

    def close(self) -> None:
        self._end()
        self._thread.join()


def pinned(done: Done, device: str | None) -> Done:
    """The same with its batch in page-locked memory."""
    try:
        pin_memory = torch.utils.data._utils.pin_memory.pin_memory
        return done._replace(batch=pin_memory(done.batch, device))
    except Exception as error:
        return done._replace(batch=None, error=error)


def _pin_all(source: Any, sink: Any, device: str | None, current: int | None) -> None:
    torch.set_num_threads(1)
    if current is not None:
        torch.cuda.set_device(current)
    for key, done in iter(source.get, None):
        sink.put((key, pinned(done, device)))
        del key, done


class Local:
    """In place of a feed when there are no workers: each batch is made when it is asked for."""

    size = 0

    def __init__(self, leader: Leader | None, epochs: Epochs, pin: str | None) -> None:
        self._job: Job | None = None
        self._leader, self._epochs, self._pin = leader, epochs, pin
        self._told_ahead = False
        self.recent: list[Done] = []
        self.transport_s = 0.0
        self.handed = -1

    def begin(self, plan: Plan, version: Any, job: Job, new_pool: Callable[[], Pool]) -> None:
        self._plan, self._job, self._told_ahead = plan, job, False
        if self._leader is not None:
            self._leader.begin(plan)

    def next(self) -> Done:
        plan = self._plan
        b = next(_open_batches(plan, plan.handed), None)
        if b is None:
            self._lead(plan.handed)
            raise StopIteration
        if self._leader is not None:
            self._leader.deal(plan, b)
        self._lead(b)
        done = worker.local(self._job, Task(plan.offset + b, plan.batch(b), plan.seed(b)))
        self.recent = [done]
        plan.hand(b)
        self.handed = b
        began = time.perf_counter()
        if self._pin is not None and done.error is None:
            done = pinned(done, self._pin or None)
        self.transport_s = time.perf_counter() - began
        return done

    def _lead(self, b: int) -> None:
        if self._leader is None:
            return
        waited = sum(d.waited_s for d in self.recent)
        self._leader.advance(self._plan, b, self._plan.before(b + 1) - self._plan.before(b), waited)
        if not self._told_ahead and self._epochs.due(self._plan, b + 1):
            self._told_ahead = True
            ahead = self._epochs.ahead()
            if ahead is not None:
                self._leader.look_ahead(ahead)

    def end(self) -> None:
        self._job = None

    def close(self) -> None:
        self._job = None


def _open_batches(plan: Plan, first: int) -> Iterator[int]:
    """Numbers of the batches from `first` on that the user does not have."""
    b = first
    while plan.has(b):
        if b not in plan.out:
            yield b
        b += 1


class _Span:
    """What has become of the batches of one plan."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.to_give = _open_batches(plan, plan.handed)  # to workers
        self.given = plan.handed  # all before were given to workers
        self.low = plan.handed    # all before are finished
        self._finished = set(plan.out)
        self.pinning: set[int] = set()
        self.ready: dict[int, Done] = {}

    def finish(self, b: int) -> None:
        self._finished.add(b)
        while self.low in self._finished:
            self._finished.remove(self.low)
            self.low += 1

    def held(self) -> int:
        return len(self.pinning) + len(self.ready)

    def samples_out(self) -> int:
        """Indices of batches behind `low` that were given to workers."""
        return self.plan.before(self.given) - self.plan.before(self.low)


class Feed:
    """Batches through workers.

    Args:
        size: Workers to begin with.
        prefetch: Batches for each.
        leader: Tells the daemon; None: nobody does.
        epochs: Says what comes ahead.
        keep: Workers are kept when an iteration ends, and make the next one's batches ahead.
        relaxed: Batches are handed out as they are finished.
        pin: None: not pinned. Else the device's name, "" for the default.
        here: The first batch is made in this process while the workers start.
    """

    def __init__(self, size: int, prefetch: int, leader: Leader | None, epochs: Epochs, *,
                 keep: bool, relaxed: bool, pin: str | None, here: bool = False) -> None:
        self.size, self._prefetch = size, prefetch
        self._leader, self._epochs = leader, epochs
        self._keep, self._relaxed, self._pin, self._here = keep, relaxed, pin, here
        self._mine: tuple[Job, Task] | None = None  # the batch that is made here
        self._pool: Pool | None = None
        self._pinner: Pinner | None = None
        self._version: Any = None
        self._number = 0  # of the next task
        self._given: dict[int, tuple[_Span, int]] = {}  # tasks with workers, by number
        self._span: _Span | None = None
        self._ahead: _Span | None = None
        self._asked_ahead = False
        self.recent: list[Done] = []  # finished since the batch before
        self.transport_s = 0.0        # of the last next(): unpacking, and waiting to be pinned
        self._waited_s = 0.0          # of workers for bytes, not yet published
        self.handed = -1              # the batch that next() gave

    # One iteration

    def begin(self, plan: Plan, version: Any, job: Job, new_pool: Callable[[], Pool]) -> None:
        """Hand out this plan from now on.

        version: of the dataset; another one needs new workers. new_pool: makes a pool for the job.
        """
        if self._pool is not None and (self._pool.closed or version != self._version):
            self.close()
        self._version = version
        if self._ahead is not None and self._ahead.plan is plan:
            self._forget(self._span)
            self._span = self._ahead
        else:
            self._forget(self._span, self._ahead)
            plan.restart()
            self._span = _Span(plan)
        self._ahead, self._asked_ahead = None, False
        if self._leader is not None:
            self._leader.begin(plan)
        fresh, self._mine = self._pool is None, None
        try:
            self._start(new_pool)
            if fresh and self._here:
                task = self._next_task()
                self._mine = (job, task) if task is not None else None
            self._fill()
            self._lead()
        except BaseException:
            self.close()
            raise

    def next(self) -> Done:
        """The next batch, also one with an error in it; StopIteration at the end."""
        try:
            return self._next()
        except StopIteration:
            raise
        except BaseException:
            self.close()
            raise

    def _next(self) -> Done:
        span = self._span
        self.recent, self.transport_s = [], 0.0
        if self._pool is None:
            raise RuntimeError("this iteration was broken off by an error: begin another one")
        self._collect()
        self._fill()
        while True:
            b = self._choice(span)
            if b is not None:
                break
            self._lead()
            self._wait(span)
            self._fill()
        done = span.ready.pop(b)
        span.plan.hand(b)
        self.handed = b
        self._fill()
        self._lead()
        return done

    def _choice(self, span: _Span) -> int | None:
        """A batch to hand out; None: wait. StopIteration: there are no more."""
        if self._relaxed and span.ready:
            return min(span.ready)
        b = span.plan.handed
        if b in span.ready:
            return b
        if b >= span.given and not span.held() and not self._out_of(span):
            raise StopIteration
        return None

    def _out_of(self, span: _Span) -> bool:
        return any(s is span for s, _ in self._given.values())

    def _wait(self, span: _Span) -> None:
        wanted = span.plan.handed
        if self._mine is not None:
            (job, task), self._mine = self._mine, None
            core = worker.Core()
            self._take(worker.local(job, task, core.seconds))
            core.close()
        elif wanted in span.pinning or self._relaxed and span.pinning:
            began = time.perf_counter()
            self._pinned(*self._pinner.get(wait=True))
            self.transport_s += time.perf_counter() - began
        else:
            self._take(self._pool.receive())

    def _collect(self) -> None:
        """Take in what is finished."""
        began = time.perf_counter()
        for done in self._pool.poll():
            self._take(done)
        self.transport_s += time.perf_counter() - began
        while self._pinner is not None:
            item = self._pinner.get(wait=False)
            if item is None:
                break
            self._pinned(*item)

    def _take(self, done: Done) -> None:
        self.recent.append(done)
        self._waited_s += done.waited_s
        span, b = self._given.pop(done.number)
        span.finish(b)
        if self._pinner is not None and done.error is None:
            span.pinning.add(b)
            self._pinner.put((span, b), done)
        else:
            span.ready[b] = done

    def _pinned(self, key: tuple[_Span, int], done: Done) -> None:
        span, b = key
        span.pinning.discard(b)
        span.ready[b] = done

    # Giving to workers

    def _fill(self) -> None:
        held = len(self._given) + self._span.held() + (self._ahead.held() if self._ahead else 0)
        free = min(self._pool.size * self._prefetch - held, self._pool.room)
        for _ in range(free):
            task = self._next_task()
            if task is None:
                return
            self._pool.submit(task)

    def _next_task(self) -> Task | None:
        """The next batch to be made, which counts as given from now on; None: there is none."""
        span = self._span
        b = next(span.to_give, None)
        if b is None:
            span = self._ahead_span()
            b = next(span.to_give, None) if span is not None else None
            if b is None:
                return None
        if self._leader is not None:
            self._leader.deal(span.plan, b)
        task = Task(self._number, span.plan.batch(b), span.plan.seed(b))
        self._given[self._number] = span, b
        span.given = b + 1
        self._number += 1
        return task

    def _ahead_span(self) -> _Span | None:
        if self._ahead is None and self._keep:
            plan = self._look_ahead()
            self._ahead = _Span(plan) if plan is not None else None
        return self._ahead

    def _look_ahead(self) -> Plan | None:
        """What comes next; the daemon is told, once."""
        plan = self._epochs.ahead()
        if plan is not None and not self._asked_ahead and self._leader is not None:
            self._leader.look_ahead(plan)
        self._asked_ahead = True
        return plan

    def _lead(self) -> None:
        """Publish how far the workers are. After each _fill(): the daemon's window begins behind
        what they hold, and an idle worker reads what it was given at once."""
        if self._leader is None:
            return
        span, out = self._span, self._span.samples_out()
        if self._ahead is not None:
            out += self._ahead.samples_out()
            if span.low == span.plan.count():
                span = self._ahead
        waited, self._waited_s = self._waited_s / max(self.size, 1), 0.0
        self._leader.advance(span.plan, span.low, out, waited)
        if not self._asked_ahead and self._epochs.due(self._span.plan, self._span.given):
            self._look_ahead()

    # Workers

    def resize(self, n: int) -> None:
        self.size = n
        if self._pool is not None:
            self._pool.resize(self._useful(n))
            self._fill()

    def _useful(self, n: int) -> int:
        """Workers that end with the iteration are of use only if there are batches for them."""
        plan = self._span.plan
        if self._keep or plan.count() is None:
            return n
        return max(1, min(n, plan.count() - plan.handed))

    @property
    def pids(self) -> list[int]:
        return self._pool.pids if self._pool is not None else []

    def _start(self, new_pool: Callable[[], Pool]) -> None:
        if self._pool is None:
            self._pool = new_pool()
            self._pool.resize(self._useful(self.size))
        if self._pin is not None and self._pinner is None:
            self._pinner = Pinner(self._pin or None)

    def _forget(self, *spans: _Span | None) -> None:
        """Drop what workers were given of these spans, the oldest ones."""
        self._given = {n: task for n, task in self._given.items() if task[0] not in spans}
        if self._pool is not None:
            self._pool.forget(min(self._given, default=self._number))

    def end(self) -> None:
        """The iteration is over, or was given up."""
        if not self._keep:
            self.close()

    def close(self) -> None:
        """End the workers. begin() starts new ones."""
        pool, self._pool = self._pool, None
        pinner, self._pinner = self._pinner, None
        self._given, self._mine = {}, None
        self._span = self._ahead = None
        try:
            if pool is not None:
                pool.close()
        finally:
            if pinner is not None:
                pinner.close()
