# SPDX-License-Identifier: Apache-2.0
"""WorkerPool: worker processes, one unix socket each; assigns batches and handles deaths.

A task goes to the worker with the shortest queue, among equals to the one that has been idle for
longest, and never more than `prefetch` to one worker; the others wait in the pool. A worker answers
its tasks in order, so the first entry of its queue is the batch that it is making.

    STARTING --says READY--> READY --resize()--> RETIRING --end of file--> gone
        any --end of file, not asked for--> WorkerDied

(POOL-1) Workers share no lock and no queue: killing one at any instruction harms no other.
(POOL-2) A submitted task comes back once as a BatchResult, is named by a WorkerDied, or was
     forgotten. Tasks that a dead or retired worker had not begun go to other workers.
(POOL-3) The parent never blocks in a write.
(POOL-4) close() always returns, and no process of the pool is left after it. A pool that is garbage
     collected, and the end of the interpreter, close it. In a forked child the pool is dead:
     nothing there touches the workers.
(POOL-5) An exception in the middle of a message (Ctrl-C, no descriptors left) closes the pool.

One thread at a time may use a pool.
"""
from __future__ import annotations

import errno
import multiprocessing
import multiprocessing.context
import os
import select
import signal
import socket
import threading
import time
import weakref
from collections import deque
from typing import Any, List, Optional, Union

from dlcache.torch.pipeline import transport, worker
from dlcache.torch.pipeline.worker import BatchResult, BatchTask

__all__ = ["BatchResult", "BatchTask", "WorkerDied", "WorkerPool"]

ASK_S = 2.0  # close(): time that a worker has to end by itself,
TERM_S = 2.0  # and after SIGTERM
LOOK_S = 5.0  # while waiting: interval of the check for workers that died without an end of file

_STARTING, _READY, _RETIRING = range(3)


class WorkerDied(RuntimeError):
    """A worker process ended by itself. `indices`: the batch it was at; `sample`: the index."""

    def __init__(self, indices: Any, sample: Optional[int], exitcode: Optional[int],
                 pid: Optional[int], number: Optional[int] = None, ready: bool = True) -> None:
        self.indices, self.sample, self.exitcode, self.pid = indices, sample, exitcode, pid
        self.number = number
        super().__init__(f"worker process {pid} {_how(exitcode)} {self._when(ready)}")

    def _when(self, ready: bool) -> str:
        if not ready:
            return "while it started; what it printed says why"
        if self.number is None:
            return "while it had nothing to do"
        at = f"at sample {self.sample} of batch" if self.sample is not None else "in batch"
        return f"{at} {self.number}, indices {_shorten(self.indices)}"

    def __reduce__(self):
        return RuntimeError, self.args


_HINTS: dict[int, str] = {
    signal.SIGKILL: ", perhaps for lack of memory,",
    signal.SIGSEGV: ", a fault in native code,",
    signal.SIGBUS: ", a fault in native code or a lack of shared memory,",
}


def _how(exitcode: Optional[int]) -> str:
    if exitcode is None:
        return "closed its end of the socket"
    if exitcode >= 0:
        return f"exited with code {exitcode}"
    try:
        name = signal.Signals(-exitcode).name
    except ValueError:
        name = "a signal"
    return f"was killed by signal {-exitcode} ({name}){_HINTS.get(-exitcode, '')}"


def _shorten(indices: Any) -> str:
    text = repr(indices)
    return text if len(text) <= 200 else text[:200] + "..."


class _Entry:
    """A task that was sent to a worker."""
    __slots__ = ("task", "forgotten")

    def __init__(self, task: BatchTask) -> None:
        self.task, self.forgotten = task, False


class _WorkerHandle:
    """A worker process as the parent sees it."""

    def __init__(self, ident: int, process: Any, link: transport.ParentEnd) -> None:
        self.ident, self.process, self.link = ident, process, link
        self.state = _STARTING
        self.entries: deque = deque()
        self.held = 0  # entries not forgotten
        self.since = time.monotonic()  # nothing to do since

    def load(self) -> tuple:
        return len(self.entries), self.since


class _WorkerSet:
    """The workers of a pool; separate, so that they can be ended after the pool is gone."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.members: List[_WorkerHandle] = []
        self.ready: deque = deque()  # (head, batch) or an exception, in order of arrival
        _worker_sets.add(self)

    def here(self) -> bool:
        return self.pid == os.getpid()

    def end(self) -> None:
        """Asks, terminates, kills, joins."""
        members, self.members = self.members, []
        if not self.here():
            return
        for member in members:
            member.link.close()
        _join(members, ASK_S)
        for member in members:
            if member.process.exitcode is None:
                member.process.terminate()
        _join(members, TERM_S)
        for member in members:
            if member.process.exitcode is None:
                member.process.kill()
            _reap(member.process)


def _reap(process: Any) -> Optional[int]:
    """Waits for a process that ends or was killed; its exit code, None if that is lost."""
    process.join()
    exitcode = process.exitcode
    try:
        process.close()
    except ValueError:  # SIGCHLD is ignored: nobody knows that it has ended
        pass
    return exitcode


def _join(members: List[_WorkerHandle], seconds: float) -> None:
    end = time.monotonic() + seconds
    for member in members:
        member.process.join(max(0.0, end - time.monotonic()))


_worker_sets: weakref.WeakSet = weakref.WeakSet()


def _close_in_child() -> None:
    """In a forked child: close the parent's ends, so that workers notice when the parent ends, and
    drop all shared memory that no tensor uses, so that it is freed when the parent drops it."""
    for workers in list(_worker_sets):
        for member in workers.members:
            member.link.close()
            member.link.cells = None
        workers.members = []
        workers.ready.clear()


os.register_at_fork(after_in_child=_close_in_child)


class WorkerPool:
    """Worker processes for one BatchConfig; none until resize().

    Args:
        config (BatchConfig): How they make batches.
        context (str | context | None): ``"fork"``, ``"spawn"``, ``"forkserver"``, a context of
            multiprocessing, or its default.
        timeout (float): Seconds that receive() waits at most; 0: for ever.
        prefetch (int): Tasks that a worker has at hand at most.
    """

    def __init__(self, config: worker.BatchConfig, context: Union[str, Any, None] = None, *,
                 timeout: float = 0.0, prefetch: int = 2) -> None:
        if prefetch < 1:
            raise ValueError(f"prefetch must be at least 1, got {prefetch}")
        if context is None or isinstance(context, str):
            context = multiprocessing.get_context(context)
        self._config, self._timeout, self._prefetch = config, timeout, prefetch
        self._context: Any = context
        self._pending: deque = deque()  # tasks that no worker has
        self._poll = select.poll()
        self._polled: dict = {}  # descriptor to (member, what is asked beyond reading)
        self._workers = _WorkerSet()
        self._ready = self._workers.ready
        self._end = weakref.finalize(self, self._workers.end)

    # ---- workers ----

    @property
    def size(self) -> int:
        """Workers that take tasks, or will when they have started."""
        return len(self._staff())

    @property
    def pids(self) -> List[int]:
        """Processes of the pool, those that retire included."""
        return [m.process.pid for m in self._workers.members]

    @property
    def closed(self) -> bool:
        return not self._end.alive

    def _staff(self) -> List[_WorkerHandle]:
        return [m for m in self._workers.members if m.state != _RETIRING]

    def resize(self, n: int) -> None:
        """Starts workers, or retires those with least to do, each after the batch it is at."""
        self._check_open()
        if n < 0:
            raise ValueError(f"a pool cannot have {n} workers")
        while self.size < n:
            self._start(n)
        staff = sorted(self._staff(), key=_WorkerHandle.load)
        for member in staff[:max(0, len(staff) - n)]:
            member.state = _RETIRING
            member.link.send(None)
        self._deal()

    def _start(self, n: int) -> None:
        members = self._workers.members
        ident = min(set(range(len(members) + 1)) - {m.ident for m in members})
        try:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        except OSError as e:
            raise self._no_worker(ident, e) from e
        process = self._context.Process(
            target=worker.main, name=f"dlcache-worker-{ident}", daemon=True,
            args=(theirs, self._config, ident, self._config.num_workers or n,
                  self._parent_pid()))
        member = _WorkerHandle(ident, process, transport.ParentEnd(ours))
        members.append(member)  # before the fork: the child closes what it finds there
        try:
            _start_without_interrupts(process)
        except BaseException as e:
            self._workers.members.remove(member)
            member.link.close()
            if isinstance(e, OSError):
                raise self._no_worker(ident, e) from e
            raise
        finally:
            theirs.close()

    def _parent_pid(self) -> Optional[int]:
        """Our pid if the kernel can tie the life of a worker to it."""
        direct = self._context.get_start_method() in ("fork", "spawn")
        main = threading.current_thread() is threading.main_thread()
        return os.getpid() if direct and main else None

    def _no_worker(self, ident: int, e: OSError) -> OSError:
        advice = ("raise the limit of open files (ulimit -n) or use fewer workers"
                  if e.errno in (errno.EMFILE, errno.ENFILE) else "use fewer workers")
        return OSError(e.errno, f"cannot start worker {ident} beside {len(self._workers.members)}: "
                       f"{os.strerror(e.errno) if e.errno else e}; {advice}")

    # ---- tasks ----

    @property
    def room(self) -> int:
        """How many more tasks may be submitted now."""
        staff = self._staff()
        return max(0, len(staff) * self._prefetch - self._held() - len(self._pending))

    @property
    def outstanding(self) -> int:
        """Tasks submitted whose Done was not received yet."""
        return self._held() + len(self._pending) + len(self._ready)

    def _held(self) -> int:
        return sum(m.held for m in self._workers.members)

    def submit(self, task: BatchTask) -> None:
        """Hands in a task. More than `room` are taken too: they wait."""
        self._check_open()
        self._pending.append(task)
        self._deal()

    def _deal(self) -> None:
        if not self._pending:
            return
        staff = [m for m in self._workers.members if m.state == _READY]
        staff = staff or self._staff()  # before the first is ready, each gets its share
        while self._pending and staff:
            member = min(staff, key=_WorkerHandle.load)
            if member.held >= self._prefetch:
                return
            self._give(member, self._pending.popleft())

    def _give(self, member: _WorkerHandle, task: BatchTask) -> None:
        try:
            member.link.send(tuple(task))
            member.entries.append(_Entry(task))
            member.held += 1
        except Exception:
            raise  # it cannot be pickled; nothing was sent
        except BaseException:  # Ctrl-C: sent or not, nobody knows
            self.close()
            raise

    def forget(self, below: int) -> None:
        """Drops all tasks and results with smaller numbers: they will not be received."""
        self._check_open()
        self._pending = deque(t for t in self._pending if t.number >= below)
        for item in list(self._ready):
            if not isinstance(item, Exception) and item[0][0] < below:
                self._ready.remove(item)
                if item[1] is not None:
                    item[1].discard()
        for member in self._workers.members:
            lost = [e for e in member.entries if e.task.number < below and not e.forgotten]
            for entry in lost:
                entry.forgotten = True
            if lost:
                member.held -= len(lost)
                member.link.send(below)
        self._deal()

    # ---- results ----

    def receive(self, timeout: Optional[float] = None) -> BatchResult:
        """Waits for the next batch that is finished: the first finished comes first.

        Raises WorkerDied when a worker has died, and RuntimeError after `timeout` seconds.
        """
        self._check_open()
        limit = self._timeout if timeout is None else timeout
        end = time.monotonic() + limit if limit > 0 or timeout is not None else None
        self._pump(0.0)  # also when there is one: whoever has finished gets more to do
        while not self._ready:
            self._check_some()
            left = LOOK_S if end is None else min(LOOK_S, max(0.0, end - time.monotonic()))
            if not self._pump(left) and not self._ready:
                self._look()
                if end is not None and time.monotonic() >= end and not self._ready:
                    raise RuntimeError(self._late(limit))
        return self._hand_out()

    def poll(self) -> List[BatchResult]:
        """The batches that are finished, without waiting. Raises WorkerDied when one has died."""
        self._check_open()
        while self._pump(0.0):
            pass
        found: List[BatchResult] = []
        while self._ready and not (found and isinstance(self._ready[0], Exception)):
            found.append(self._hand_out())
        return found

    def _hand_out(self) -> BatchResult:
        item = self._ready.popleft()
        if isinstance(item, Exception):
            raise item
        (number, failure, *figures), received = item
        batch, error = None, failure.rebuild() if failure is not None else None
        if received is not None:
            try:
                batch = received.open()
            except Exception as e:
                e.add_note(f"dlcache: while unpickling batch {number}")
                error = e
        return BatchResult(number, batch, error, *figures)

    def _check_open(self) -> None:
        if self.closed:
            raise RuntimeError("the pool is closed: make another")
        if not self._workers.here():
            raise RuntimeError("the pool belongs to the process that made it: make another here")

    def _check_some(self) -> None:
        if not self.outstanding:
            raise RuntimeError("nothing was submitted to the pool: submit() comes before receive()")
        if not self._workers.members:
            raise RuntimeError("the pool has no workers: resize() comes before receive()")

    def _late(self, seconds: float) -> str:
        waiting = []
        for member in self._workers.members:
            for entry in list(member.entries)[:1]:
                sample = worker.sample_of(member.link.cells, entry.task.number)
                at = "" if sample is None else f", at sample {sample}"
                waiting.append(f"batch {entry.task.number} in worker {member.ident} (pid "
                               f"{member.process.pid}{at})")
        return (f"DataLoader timed out after {seconds:g} seconds: waiting for "
                f"{', '.join(waiting) or 'workers'}; raise timeout= or see what the data waits for")

    def _pump(self, seconds: float) -> bool:
        """Waits for sockets and takes in what came. False: nothing happened."""
        for member in self._workers.members:
            writes = select.POLLOUT if member.link.pending else 0
            if self._polled.get(member.link.fileno()) != (member, writes):
                self._poll.register(member.link, select.POLLIN | writes)
                self._polled[member.link.fileno()] = (member, writes)
        events = self._poll.poll(seconds * 1000)
        try:
            for fd, event in events:
                self._serve(self._polled[fd][0], event)
        except BaseException:  # a message may be lost: nothing here can be trusted any more
            self.close()
            raise
        return bool(events)

    def _serve(self, member: _WorkerHandle, event: int) -> None:
        if event & select.POLLOUT:
            member.link.flush()
        if event & ~select.POLLOUT:
            for head, batch in member.link.receive():
                self._take(member, head, batch)
            if member.link.ended:
                self._gone(member)
        self._deal()

    def _take(self, member: _WorkerHandle, head: Any,
              batch: Optional[transport.ReceivedBatch]) -> None:
        if head == worker.READY:
            if member.state == _STARTING:
                member.state = _READY
            return
        entry = member.entries.popleft()
        member.since = time.monotonic()
        if not entry.forgotten:
            member.held -= 1
            self._ready.append((head, batch))
        elif batch is not None:
            batch.discard()

    def _look(self) -> None:
        """Finds the dead whose end of file does not come: another process holds their socket."""
        for member in list(self._workers.members):
            if member.process.exitcode is not None:
                for head, batch in member.link.receive():
                    self._take(member, head, batch)
                self._gone(member)
        self._deal()

    def _gone(self, member: _WorkerHandle) -> None:
        self._workers.members.remove(member)
        del self._polled[member.link.fileno()]
        self._poll.unregister(member.link)
        process, entries = member.process, member.entries
        process.join(TERM_S)
        if process.exitcode is None:
            process.kill()
        pid, exitcode = process.pid, _reap(process)
        member.link.close()
        lost = None
        if member.state != _RETIRING or exitcode != 0:
            lost = entries.popleft() if entries else None
            self._ready.append(self._obituary(member, lost, exitcode, pid))
        self._pending.extendleft(reversed([e.task for e in entries if not e.forgotten]))

    def _obituary(self, member: _WorkerHandle, lost: Optional[_Entry], exitcode: Optional[int],
                  pid: int) -> WorkerDied:
        ready = member.state != _STARTING
        if lost is None:
            return WorkerDied([], None, exitcode, pid, None, ready)
        task = lost.task
        sample = worker.sample_of(member.link.cells, task.number)
        return WorkerDied(task.indices, sample, exitcode, pid, task.number, ready)

    # ---- end ----

    def close(self) -> None:
        """Ends all workers. May be called twice, and in a forked child, where it does nothing."""
        self._end()
        self._pending.clear()
        self._ready.clear()

    def __enter__(self) -> "WorkerPool":
        return self

    def __exit__(self, *_) -> None:
        self.close()


def _start_without_interrupts(process: Any) -> None:
    """A Ctrl-C must not hit the child before it ignores it, nor leave one that nobody knows of."""
    old = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        process.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, old)
