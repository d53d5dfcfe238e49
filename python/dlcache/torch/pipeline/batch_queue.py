# SPDX-License-Identifier: Apache-2.0
"""BatchQueue: has batches made by workers, ahead of the user, and returns them in their order.

    plan of this iteration  |0 1 2 3 4 5 6 7 8|        plan of the next one, as predicted  |0 1 2 3
                             `---' `-' `-----'                                              `-----'
                          returned finished  with workers; then, if workers are kept, these

A queue serves many iterations, one at a time. begin() keeps the batches that were made ahead if
they belong to the plan that begins; all others are dropped.

(QUEUE-1) At most workers x prefetch batches are with workers, finished or being pinned.
(QUEUE-2) next() never returns a batch of another plan than the current one.
(QUEUE-3) Any exception in next() other than the error of a batch (an interrupt, the death of a
     worker, a timeout) ends the workers; begin() starts new ones.

One thread at a time may use a queue.
"""

from __future__ import annotations

import queue
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import torch

from dlcache.torch.order.batch_plans import BatchPlan
from dlcache.torch.order.epoch_state import EpochState
from dlcache.torch.order.order_client import OrderClient
from dlcache.torch.pipeline import worker
from dlcache.torch.pipeline.worker import BatchConfig, BatchResult, BatchTask
from dlcache.torch.pipeline.worker_pool import WorkerPool

__all__ = ["BatchQueue", "LocalBatches", "Pinner"]


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

    def put(self, key: Any, result: BatchResult) -> None:
        self._in.put((key, result))

    def get(self, wait: bool) -> tuple[Any, BatchResult] | None:
        """A batch that was put in, pinned, or with the error that came of it."""
        try:
            return self._out.get(block=wait)
        except queue.Empty:
            return None

    def close(self) -> None:
        self._end()
        self._thread.join()


def pinned(result: BatchResult, device: str | None) -> BatchResult:
    """The same with its batch in page-locked memory."""
    try:
        pin_memory = torch.utils.data._utils.pin_memory.pin_memory
        return result._replace(batch=pin_memory(result.batch, device))
    except Exception as error:
        return result._replace(batch=None, error=error)


def _pin_all(source: Any, sink: Any, device: str | None, current: int | None) -> None:
    torch.set_num_threads(1)
    if current is not None:
        torch.cuda.set_device(current)
    for key, result in iter(source.get, None):
        sink.put((key, pinned(result, device)))
        del key, result


class LocalBatches:
    """Replaces BatchQueue when there are no workers: each batch is made when it is asked for."""

    size = 0

    def __init__(self, order_client: OrderClient | None, epoch_state: EpochState,
                 pin: str | None) -> None:
        self._config: BatchConfig | None = None
        self._order_client, self._epoch_state, self._pin = order_client, epoch_state, pin
        self._told_ahead = False
        self.recent: list[BatchResult] = []
        self.transport_s = 0.0
        self.handed = -1

    def begin(self, plan: BatchPlan, version: Any, config: BatchConfig,
              new_pool: Callable[[], WorkerPool]) -> None:
        self._plan, self._config, self._told_ahead = plan, config, False
        if self._order_client is not None:
            self._order_client.begin(plan)

    def next(self) -> BatchResult:
        plan = self._plan
        b = next(_open_batches(plan, plan.handed), None)
        if b is None:
            self._advance(plan.handed)
            raise StopIteration
        if self._order_client is not None:
            self._order_client.deal(plan, b)
        self._advance(b)
        task = BatchTask(plan.offset + b, plan.batch(b), plan.seed(b))
        result = worker.make_here(self._config, task)
        self.recent = [result]
        plan.hand(b)
        self.handed = b
        began = time.perf_counter()
        if self._pin is not None and result.error is None:
            result = pinned(result, self._pin or None)
        self.transport_s = time.perf_counter() - began
        return result

    def _advance(self, b: int) -> None:
        if self._order_client is None:
            return
        waited = sum(d.waited_s for d in self.recent)
        samples = self._plan.before(b + 1) - self._plan.before(b)
        self._order_client.advance(self._plan, b, samples, waited)
        if not self._told_ahead and self._epoch_state.due(self._plan, b + 1):
            self._told_ahead = True
            ahead = self._epoch_state.ahead()
            if ahead is not None:
                self._order_client.look_ahead(ahead)

    def end(self) -> None:
        self._config = None

    def close(self) -> None:
        self._config = None


def _open_batches(plan: BatchPlan, first: int) -> Iterator[int]:
    """Numbers of the batches from `first` on that the user does not have."""
    b = first
    while plan.has(b):
        if b not in plan.out:
            yield b
        b += 1


class _PlanProgress:
    """Which batches of one plan are with workers, finished, or ready."""

    def __init__(self, plan: BatchPlan) -> None:
        self.plan = plan
        self.to_give = _open_batches(plan, plan.handed)  # to workers
        self.given = plan.handed  # all before were given to workers
        self.low = plan.handed    # all before are finished
        self._finished = set(plan.out)
        self.pinning: set[int] = set()
        self.ready: dict[int, BatchResult] = {}

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


class BatchQueue:
    """Batches through workers.

    Args:
        size: Workers to begin with.
        prefetch: Batches for each.
        order_client: Announces the order to the daemon; None: it is not announced.
        epoch_state: Predicts the plan of the next iteration.
        keep: Workers are kept when an iteration ends, and make the next one's batches ahead.
        relaxed: Batches are handed out as they are finished.
        pin: None: not pinned. Else the device's name, "" for the default.
        here: The first batch is made in this process while the workers start.
    """

    def __init__(self, size: int, prefetch: int, order_client: OrderClient | None,
                 epoch_state: EpochState, *,
                 keep: bool, relaxed: bool, pin: str | None, here: bool = False) -> None:
        self.size, self._prefetch = size, prefetch
        self._order_client, self._epoch_state = order_client, epoch_state
        self._keep, self._relaxed, self._pin, self._here = keep, relaxed, pin, here
        self._mine: tuple[BatchConfig, BatchTask] | None = None  # the batch that is made here
        self._pool: WorkerPool | None = None
        self._pinner: Pinner | None = None
        self._version: Any = None
        self._number = 0  # of the next task
        self._given: dict[int, tuple[_PlanProgress, int]] = {}  # tasks with workers, by number
        self._current: _PlanProgress | None = None
        self._ahead: _PlanProgress | None = None
        self._asked_ahead = False
        self.recent: list[BatchResult] = []  # finished since the batch before
        self.transport_s = 0.0        # of the last next(): unpacking, and waiting to be pinned
        self._waited_s = 0.0          # of workers for bytes, not yet published
        self.handed = -1              # the batch that next() gave

    # One iteration

    def begin(self, plan: BatchPlan, version: Any, config: BatchConfig,
              new_pool: Callable[[], WorkerPool]) -> None:
        """Hand out this plan from now on.

        version: of the dataset; another one needs new workers. new_pool: makes the pool.
        """
        if self._pool is not None and (self._pool.closed or version != self._version):
            self.close()
        self._version = version
        if self._ahead is not None and self._ahead.plan is plan:
            self._forget(self._current)
            self._current = self._ahead
        else:
            self._forget(self._current, self._ahead)
            plan.restart()
            self._current = _PlanProgress(plan)
        self._ahead, self._asked_ahead = None, False
        if self._order_client is not None:
            self._order_client.begin(plan)
        fresh, self._mine = self._pool is None, None
        try:
            self._start(new_pool)
            if fresh and self._here:
                task = self._next_task()
                self._mine = (config, task) if task is not None else None
            self._fill()
            self._advance()
        except BaseException:
            self.close()
            raise

    def next(self) -> BatchResult:
        """The next batch, also one with an error in it; StopIteration at the end."""
        try:
            return self._next()
        except StopIteration:
            raise
        except BaseException:
            self.close()
            raise

    def _next(self) -> BatchResult:
        progress = self._current
        self.recent, self.transport_s = [], 0.0
        if self._pool is None:
            raise RuntimeError("this iteration was broken off by an error: begin another one")
        self._collect()
        self._fill()
        while True:
            b = self._choice(progress)
            if b is not None:
                break
            self._advance()
            self._wait(progress)
            self._fill()
        result = progress.ready.pop(b)
        progress.plan.hand(b)
        self.handed = b
        self._fill()
        self._advance()
        return result

    def _choice(self, progress: _PlanProgress) -> int | None:
        """A batch to hand out; None: wait. StopIteration: there are no more."""
        if self._relaxed and progress.ready:
            return min(progress.ready)
        b = progress.plan.handed
        if b in progress.ready:
            return b
        if b >= progress.given and not progress.held() and not self._out_of(progress):
            raise StopIteration
        return None

    def _out_of(self, progress: _PlanProgress) -> bool:
        return any(s is progress for s, _ in self._given.values())

    def _wait(self, progress: _PlanProgress) -> None:
        wanted = progress.plan.handed
        if self._mine is not None:
            (config, task), self._mine = self._mine, None
            core = worker.Core()
            self._take(worker.make_here(config, task, core.seconds))
            core.close()
        elif wanted in progress.pinning or self._relaxed and progress.pinning:
            began = time.perf_counter()
            self._pinned(*self._pinner.get(wait=True))
            self.transport_s += time.perf_counter() - began
        else:
            self._take(self._pool.receive())

    def _collect(self) -> None:
        """Take in what is finished."""
        began = time.perf_counter()
        for result in self._pool.poll():
            self._take(result)
        self.transport_s += time.perf_counter() - began
        while self._pinner is not None:
            item = self._pinner.get(wait=False)
            if item is None:
                break
            self._pinned(*item)

    def _take(self, result: BatchResult) -> None:
        self.recent.append(result)
        self._waited_s += result.waited_s
        progress, b = self._given.pop(result.number)
        progress.finish(b)
        if self._pinner is not None and result.error is None:
            progress.pinning.add(b)
            self._pinner.put((progress, b), result)
        else:
            progress.ready[b] = result

    def _pinned(self, key: tuple[_PlanProgress, int], result: BatchResult) -> None:
        progress, b = key
        progress.pinning.discard(b)
        progress.ready[b] = result

    # Giving to workers

    def _fill(self) -> None:
        held = len(self._given) + self._current.held() + (self._ahead.held() if self._ahead else 0)
        free = min(self._pool.size * self._prefetch - held, self._pool.room)
        for _ in range(free):
            task = self._next_task()
            if task is None:
                return
            self._pool.submit(task)

    def _next_task(self) -> BatchTask | None:
        """The next batch to be made, which counts as given from now on; None: there is none."""
        progress = self._current
        b = next(progress.to_give, None)
        if b is None:
            progress = self._progress_ahead()
            b = next(progress.to_give, None) if progress is not None else None
            if b is None:
                return None
        if self._order_client is not None:
            self._order_client.deal(progress.plan, b)
        task = BatchTask(self._number, progress.plan.batch(b), progress.plan.seed(b))
        self._given[self._number] = progress, b
        progress.given = b + 1
        self._number += 1
        return task

    def _progress_ahead(self) -> _PlanProgress | None:
        if self._ahead is None and self._keep:
            plan = self._look_ahead()
            self._ahead = _PlanProgress(plan) if plan is not None else None
        return self._ahead

    def _look_ahead(self) -> BatchPlan | None:
        """What comes next; the daemon is told, once."""
        plan = self._epoch_state.ahead()
        if plan is not None and not self._asked_ahead and self._order_client is not None:
            self._order_client.look_ahead(plan)
        self._asked_ahead = True
        return plan

    def _advance(self) -> None:
        """Publish how far the workers are. After each _fill(): the daemon's window begins behind
        what they hold, and an idle worker reads what it was given at once."""
        if self._order_client is None:
            return
        progress, out = self._current, self._current.samples_out()
        if self._ahead is not None:
            out += self._ahead.samples_out()
            if progress.low == progress.plan.count():
                progress = self._ahead
        waited, self._waited_s = self._waited_s / max(self.size, 1), 0.0
        self._order_client.advance(progress.plan, progress.low, out, waited)
        if not self._asked_ahead and self._epoch_state.due(self._current.plan, self._current.given):
            self._look_ahead()

    # Workers

    def resize(self, n: int) -> None:
        self.size = n
        if self._pool is not None:
            self._pool.resize(self._useful(n))
            self._fill()

    def _useful(self, n: int) -> int:
        """Workers that end with the iteration are of use only if there are batches for them."""
        plan = self._current.plan
        if self._keep or plan.count() is None:
            return n
        return max(1, min(n, plan.count() - plan.handed))

    @property
    def pids(self) -> list[int]:
        return self._pool.pids if self._pool is not None else []

    def _start(self, new_pool: Callable[[], WorkerPool]) -> None:
        if self._pool is None:
            self._pool = new_pool()
            self._pool.resize(self._useful(self.size))
        if self._pin is not None and self._pinner is None:
            self._pinner = Pinner(self._pin or None)

    def _forget(self, *progresses: _PlanProgress | None) -> None:
        """Drop what workers were given of these spans, the oldest ones."""
        self._given = {n: task for n, task in self._given.items() if task[0] not in progresses}
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
        self._current = self._ahead = None
        try:
            if pool is not None:
                pool.close()
        finally:
            if pinner is not None:
                pinner.close()
