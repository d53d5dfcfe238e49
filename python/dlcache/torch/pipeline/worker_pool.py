# SPDX-License-Identifier: Apache-2.0
"""Pool: worker processes, one socket each; who makes which batch; what happens when one dies.

Tasks are dealt to the worker with the fewest at hand, among equals to the one that has waited
longest, and never more than `prefetch` to one; the rest waits here. A worker answers its tasks in
order, so the first of its list is the one it is at.

    STARTING --says READY--> READY --resize()--> RETIRING --end of file--> gone
        any --end of file, not asked for--> WorkerDied

(P1) No lock and no queue is shared between workers: one killed at any instruction harms no other.
(P2) A task submitted comes back once as a Done, is named by a WorkerDied, or was forgotten. What a
     dead or retired worker had not begun is dealt to others.
(P3) The leader never blocks in writing.
(P4) After close(), which always ends, no process of the pool is left. A pool that is lost, and the
     end of the interpreter, close it. In a forked child it is dead: nothing there touches workers.
(P5) What breaks off in the middle of a message (Ctrl-C, no descriptors left) closes the pool.

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
from dlcache.torch.pipeline.worker import Done, Task

__all__ = ["Done", "Pool", "Task", "WorkerDied"]

ASK_S = 2.0  # close(): so long a worker may take to end by itself,
TERM_S = 2.0  # and so long after SIGTERM
LOOK_S = 5.0  # while waiting, look so often whether a worker died without an end of file

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
    """A task in the hands of a worker."""
    __slots__ = ("task", "forgotten")

    def __init__(self, task: Task) -> None:
        self.task, self.forgotten = task, False


class _Member:
    """A worker as the leader sees it."""

    def __init__(self, ident: int, process: Any, near: transport.Near) -> None:
        self.ident, self.process, self.near = ident, process, near
        self.state = _STARTING
        self.entries: deque = deque()
        self.held = 0  # entries not forgotten
        self.since = time.monotonic()  # nothing to do since

    def load(self) -> tuple:
        return len(self.entries), self.since


class _Crew:
    """The members of a pool, apart from it so that they can be ended when it has gone."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.members: List[_Member] = []
        self.ready: deque = deque()  # (head, parcel) or an exception, first come first
        _crews.add(self)

    def here(self) -> bool:
        return self.pid == os.getpid()

    def end(self) -> None:
        """Asks, terminates, kills, joins."""
        members, self.members = self.members, []
        if not self.here():
            return
        for member in members:
            member.near.close()
        _join(members, ASK_S)
        for member in members:
            if member.process.exitcode is None:
                member.process.terminate()
        _join(members, TERM_S)
        for member in members:
            if member.process.exitcode is None:
                member.process.kill()
            _bury(member.process)


def _bury(process: Any) -> Optional[int]:
    """Waits for a process that ends or was killed; its exit code, None if that is lost."""
    process.join()
    exitcode = process.exitcode
    try:
        process.close()
    except ValueError:  # SIGCHLD is ignored: nobody knows that it has ended
        pass
    return exitcode


def _join(members: List[_Member], seconds: float) -> None:
    end = time.monotonic() + seconds
    for member in members:
        member.process.join(max(0.0, end - time.monotonic()))


_crews: weakref.WeakSet = weakref.WeakSet()


def _leave_crews() -> None:
    """In a forked child: close the leader's ends, so that workers see when the leader goes, and let
    go of all shared memory that no tensor uses, so that it goes when the leader drops it."""
    for crew in list(_crews):
        for member in crew.members:
            member.near.close()
            member.near.cells = None
        crew.members = []
        crew.ready.clear()


os.register_at_fork(after_in_child=_leave_crews)


class Pool:
    """Workers for one job; none until resize().

    Args:
        job (Job): What they do.
        context (str | context | None): ``"fork"``, ``"spawn"``, ``"forkserver"``, a context of
            multiprocessing, or its default.
        timeout (float): Seconds that receive() waits at most; 0: for ever.
        prefetch (int): Tasks that a worker has at hand at most.
    """

    def __init__(self, job: worker.Job, context: Union[str, Any, None] = None, *,
                 timeout: float = 0.0, prefetch: int = 2) -> None:
        if prefetch < 1:
            raise ValueError(f"prefetch must be at least 1, got {prefetch}")
        if context is None or isinstance(context, str):
            context = multiprocessing.get_context(context)
        self._job, self._timeout, self._prefetch = job, timeout, prefetch
        self._context: Any = context
        self._pending: deque = deque()  # tasks that no worker has
        self._poll = select.poll()
        self._polled: dict = {}  # descriptor to (member, what is asked beyond reading)
        self._crew = _Crew()
        self._ready = self._crew.ready
        self._end = weakref.finalize(self, self._crew.end)

    # ---- workers ----

    @property
    def size(self) -> int:
        """Workers that take tasks, or will when they have started."""
        return len(self._staff())

    @property
    def pids(self) -> List[int]:
        """Processes of the pool, those that retire included."""
        return [m.process.pid for m in self._crew.members]

    @property
    def closed(self) -> bool:
        return not self._end.alive

    def _staff(self) -> List[_Member]:
        return [m for m in self._crew.members if m.state != _RETIRING]

    def resize(self, n: int) -> None:
        """Starts workers, or retires those with least to do, each after the batch it is at."""
        self._check_open()
        if n < 0:
            raise ValueError(f"a pool cannot have {n} workers")
        while self.size < n:
            self._start(n)
        staff = sorted(self._staff(), key=_Member.load)
        for member in staff[:max(0, len(staff) - n)]:
            member.state = _RETIRING
            member.near.send(None)
        self._deal()

    def _start(self, n: int) -> None:
        ident = min(set(range(len(self._crew.members) + 1)) - {m.ident for m in self._crew.members})
        try:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        except OSError as e:
            raise self._no_worker(ident, e) from e
        process = self._context.Process(
            target=worker.main, name=f"dlcache-worker-{ident}", daemon=True,
            args=(theirs, self._job, ident, self._job.num_workers or n, self._leader()))
        member = _Member(ident, process, transport.Near(ours))
        self._crew.members.append(member)  # before the fork: the child closes what it finds there
        try:
            _start_without_interrupts(process)
        except BaseException as e:
            self._crew.members.remove(member)
            member.near.close()
            if isinstance(e, OSError):
                raise self._no_worker(ident, e) from e
            raise
        finally:
            theirs.close()

    def _leader(self) -> Optional[int]:
        """Our pid if the kernel can tie the life of a worker to it."""
        direct = self._context.get_start_method() in ("fork", "spawn")
        main = threading.current_thread() is threading.main_thread()
        return os.getpid() if direct and main else None

    def _no_worker(self, ident: int, e: OSError) -> OSError:
        advice = ("raise the limit of open files (ulimit -n) or use fewer workers"
                  if e.errno in (errno.EMFILE, errno.ENFILE) else "use fewer workers")
        return OSError(e.errno, f"cannot start worker {ident} beside {len(self._crew.members)}: "
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
        return sum(m.held for m in self._crew.members)

    def submit(self, task: Task) -> None:
        """Hands in a task. More than `room` are taken too: they wait."""
        self._check_open()
        self._pending.append(task)
        self._deal()

    def _deal(self) -> None:
        if not self._pending:
            return
        staff = [m for m in self._crew.members if m.state == _READY]
        staff = staff or self._staff()  # before the first is ready, each gets its share
        while self._pending and staff:
            member = min(staff, key=_Member.load)
            if member.held >= self._prefetch:
                return
            self._give(member, self._pending.popleft())

    def _give(self, member: _Member, task: Task) -> None:
        try:
            member.near.send(tuple(task))
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
        for member in self._crew.members:
            lost = [e for e in member.entries if e.task.number < below and not e.forgotten]
            for entry in lost:
                entry.forgotten = True
            if lost:
                member.held -= len(lost)
                member.near.send(below)
        self._deal()

    # ---- results ----

    def receive(self, timeout: Optional[float] = None) -> Done:
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

    def poll(self) -> List[Done]:
        """The batches that are finished, without waiting. Raises WorkerDied when one has died."""
        self._check_open()
        while self._pump(0.0):
            pass
        found: List[Done] = []
        while self._ready and not (found and isinstance(self._ready[0], Exception)):
            found.append(self._hand_out())
        return found

    def _hand_out(self) -> Done:
        item = self._ready.popleft()
        if isinstance(item, Exception):
            raise item
        (number, failure, *figures), parcel = item
        batch, error = None, failure.rebuild() if failure is not None else None
        if parcel is not None:
            try:
                batch = parcel.open()
            except Exception as e:
                e.add_note(f"dlcache: while unpickling batch {number}")
                error = e
        return Done(number, batch, error, *figures)

    def _check_open(self) -> None:
        if self.closed:
            raise RuntimeError("the pool is closed: make another")
        if not self._crew.here():
            raise RuntimeError("the pool belongs to the process that made it: make another here")

    def _check_some(self) -> None:
        if not self.outstanding:
            raise RuntimeError("nothing was submitted to the pool: submit() comes before receive()")
        if not self._crew.members:
            raise RuntimeError("the pool has no workers: resize() comes before receive()")

    def _late(self, seconds: float) -> str:
        waiting = []
        for member in self._crew.members:
            for entry in list(member.entries)[:1]:
                sample = worker.sample_of(member.near.cells, entry.task.number)
                at = "" if sample is None else f", at sample {sample}"
                waiting.append(f"batch {entry.task.number} in worker {member.ident} (pid "
                               f"{member.process.pid}{at})")
        return (f"DataLoader timed out after {seconds:g} seconds: waiting for "
                f"{', '.join(waiting) or 'workers'}; raise timeout= or see what the data waits for")

    def _pump(self, seconds: float) -> bool:
        """Waits for sockets and takes in what came. False: nothing happened."""
        for member in self._crew.members:
            writes = select.POLLOUT if member.near.pending else 0
            if self._polled.get(member.near.fileno()) != (member, writes):
                self._poll.register(member.near, select.POLLIN | writes)
                self._polled[member.near.fileno()] = (member, writes)
        events = self._poll.poll(seconds * 1000)
        try:
            for fd, event in events:
                self._serve(self._polled[fd][0], event)
        except BaseException:  # a message may be lost: nothing here can be trusted any more
            self.close()
            raise
        return bool(events)

    def _serve(self, member: _Member, event: int) -> None:
        if event & select.POLLOUT:
            member.near.flush()
        if event & ~select.POLLOUT:
            for head, parcel in member.near.receive():
                self._take(member, head, parcel)
            if member.near.ended:
                self._gone(member)
        self._deal()

    def _take(self, member: _Member, head: Any, parcel: Optional[transport.Parcel]) -> None:
        if head == worker.READY:
            if member.state == _STARTING:
                member.state = _READY
            return
        entry = member.entries.popleft()
        member.since = time.monotonic()
        if not entry.forgotten:
            member.held -= 1
            self._ready.append((head, parcel))
        elif parcel is not None:
            parcel.discard()

    def _look(self) -> None:
        """Finds the dead whose end of file does not come: another process holds their socket."""
        for member in list(self._crew.members):
            if member.process.exitcode is not None:
                for head, parcel in member.near.receive():
                    self._take(member, head, parcel)
                self._gone(member)
        self._deal()

    def _gone(self, member: _Member) -> None:
        self._crew.members.remove(member)
        del self._polled[member.near.fileno()]
        self._poll.unregister(member.near)
        process, entries = member.process, member.entries
        process.join(TERM_S)
        if process.exitcode is None:
            process.kill()
        pid, exitcode = process.pid, _bury(process)
        member.near.close()
        lost = None
        if member.state != _RETIRING or exitcode != 0:
            lost = entries.popleft() if entries else None
            self._ready.append(self._obituary(member, lost, exitcode, pid))
        self._pending.extendleft(reversed([e.task for e in entries if not e.forgotten]))

    def _obituary(self, member: _Member, lost: Optional[_Entry], exitcode: Optional[int],
                  pid: int) -> WorkerDied:
        ready = member.state != _STARTING
        if lost is None:
            return WorkerDied([], None, exitcode, pid, None, ready)
        task = lost.task
        sample = worker.sample_of(member.near.cells, task.number)
        return WorkerDied(task.indices, sample, exitcode, pid, task.number, ready)

    # ---- end ----

    def close(self) -> None:
        """Ends all workers. May be called twice, and in a forked child, where it does nothing."""
        self._end()
        self._pending.clear()
        self._ready.clear()

    def __enter__(self) -> "Pool":
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
