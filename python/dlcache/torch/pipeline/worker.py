# SPDX-License-Identifier: Apache-2.0
"""Makes batches: in a worker process, or in the training process when there are no workers.

A BatchConfig says how, a BatchTask which batch; make_batch() makes it; the outcome is a
BatchResult. A batch depends on config and task alone: make_batch() first seeds torch, random and
numpy with task.seed. Code that makes samples calls note_sample(index) before each, so that an
error, or the death of the process, names the sample.

The parent sends to a worker (ParentEnd.send):
    (number, indices, seed)     make this batch
    int                         skip the waiting tasks with a smaller number
    None                        retire: end after the current batch
The worker (WorkerEnd.send) says READY once. Then it answers each task in order: SKIPPED, or the
fields of BatchResult without the batch, which travels beside them.
"""
from __future__ import annotations

import ctypes
import os
import pickle
import random
import select
import signal
import socket
import sys
import threading
import time
import traceback
from collections import deque
from typing import Any, Callable, Dict, List, NamedTuple, Optional

import torch
import torch.utils.data
from torch.utils.data import ConcatDataset, Subset

from dlcache.torch.pipeline import transport

__all__ = ["BatchConfig", "BatchResult", "BatchTask", "Failure", "local", "make", "note"]

READY, SKIPPED = "ready", "skipped"
ORPHAN_S = 5.0  # time that a worker has to finish after its parent has ended
_NOBODY = -1
_BATCH, _SAMPLE = 0, 1  # cells
_PR_SET_PDEATHSIG = 1

_cells: Any = [_NOBODY] * transport.CELLS  # in a worker: shared with the parent


class BatchConfig(NamedTuple):
    """How batches are made. Picklable if all its members are."""
    dataset: Any
    collate_fn: Callable
    auto_collation: bool = True
    drop_last: bool = False
    worker_init_fn: Optional[Callable[[int], None]] = None
    base_seed: int = 0
    num_workers: int = 0  # what get_worker_info() says; 0: how many there were when it began


class BatchTask(NamedTuple):
    """A batch to make: indices as the batch sampler said (one index without auto-collation)."""
    number: int
    indices: Any
    seed: Optional[int] = None


class BatchResult(NamedTuple):
    """A batch made, or the exception to raise in its place."""
    number: int
    batch: Any
    error: Optional[BaseException]
    samples: int  # in the batch; 0: all of them were bad and left out, there is no batch
    busy_s: float  # wall time of making and packing it
    cpu_s: float  # of busy_s: on a core, or waiting for one
    waited_s: float  # of busy_s: waiting for bytes
    stats: Dict[str, Any]  # what the sources counted (_Meter.COUNTERS); and "errors",
    # what take_errors() of the datasets said, if anything


def note_sample(index: Any) -> None:
    """Record which sample is being made."""
    try:
        _cells[_SAMPLE] = index
    except (TypeError, ValueError):
        _cells[_SAMPLE] = _NOBODY


def sample_of(cells: Any, number: int) -> Optional[int]:
    """The sample noted last while batch `number` was made."""
    if cells is None or cells[_BATCH] != number or cells[_SAMPLE] == _NOBODY:
        return None
    return cells[_SAMPLE]


def _seed(seed: int) -> None:
    """Not torch.manual_seed(): that would seed the GPUs too."""
    torch.default_generator.manual_seed(seed)
    random.seed(seed)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        # Its generator is torch's own: another seed, so that they do not draw the same numbers.
        numpy.random.seed((seed ^ seed >> 32 ^ 0x6E756D70) & 0xFFFFFFFF)


def _fetch(config: BatchConfig, indices: Any) -> Any:
    dataset = config.dataset
    if not config.auto_collation:
        note_sample(indices)
        return dataset[indices]
    if type(dataset) is Subset and not hasattr(Subset, "__getitems__"):  # torch before 2.0
        return _fetch(config._replace(dataset=dataset.dataset),
                      [dataset.indices[i] for i in indices])
    if getattr(dataset, "__getitems__", None):
        return dataset.__getitems__(indices)
    samples = []
    for index in indices:
        note_sample(index)
        samples.append(dataset[index])
    return samples


def make_batch(config: BatchConfig, task: BatchTask) -> Any:
    """Makes the batch; raises what the dataset or the collate function raise. None when the dataset
    left out all of its samples."""
    _cells[_SAMPLE] = _NOBODY
    _cells[_BATCH] = task.number
    if task.seed is not None:
        _seed(task.seed)
    samples = _fetch(config, task.indices)
    _cells[_SAMPLE] = _NOBODY
    if config.auto_collation and len(task.indices) > 0 and len(samples) == 0:
        return None
    return config.collate_fn(samples)


def _parts(dataset: Any) -> List[Any]:
    """The datasets behind Subset and ConcatDataset."""
    if isinstance(dataset, Subset):
        return _parts(dataset.dataset)
    if isinstance(dataset, ConcatDataset):
        return [part for below in dataset.datasets for part in _parts(below)]
    return [dataset]


def _handles(dataset: Any) -> List[Any]:
    """The dlcache handles a dataset reads through."""
    parts = [p for p in _parts(dataset) if callable(getattr(p, "source", None))]
    return [source[0] for source in (part.source() for part in parts) if source is not None]


def _take_errors(dataset: Any) -> Optional[Dict[str, Any]]:
    """What the datasets left out or replaced since the last batch, together."""
    total: Optional[Dict[str, Any]] = None
    for part in _parts(dataset):
        told = part.take_errors() if callable(getattr(part, "take_errors", None)) else None
        if told is not None and total is not None:
            for name, count in told["stages"].items():
                total["stages"][name] = total["stages"].get(name, 0) + count
            total["bad"] += told["bad"]
            total["skipped"] += told["skipped"]
            total["replaced"] += told["replaced"]
            total.pop("places", None)  # whose?
        else:
            total = total or told
    return total


class Core:
    """Time of this process on a core, and waiting for one: workers that are too many for the cores
    would otherwise look as if they waited for something else."""

    def __init__(self) -> None:
        try:
            self._fd = os.open("/proc/thread-self/schedstat", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self._fd = -1

    def seconds(self) -> float:
        used = time.process_time()
        try:
            return used + int(os.pread(self._fd, 100, 0).split()[1]) / 1e9
        except (OSError, IndexError, ValueError):  # the kernel does not say
            return used

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


class _Meter:
    """What was spent on a batch, from begin() to end()."""

    COUNTERS = ("hits", "misses", "bypasses", "without_daemon", "bytes")

    def __init__(self, dataset: Any, core_time: Callable[[], float] = time.process_time) -> None:
        self._dataset, self._core_time = dataset, core_time
        self._sources: Optional[List[Any]] = None

    def _read(self) -> Optional[List[float]]:
        """The counters and the seconds waited, over all sources; None where there are none."""
        try:
            if self._sources is None:
                self._sources = [h for h in _handles(self._dataset) if hasattr(h, "stats")]
            rows = [source.stats() for source in self._sources]
            names = (*self.COUNTERS, "stall_s")
            return [sum(getattr(row, name) for row in rows) for name in names] if rows else None
        except Exception:  # what cannot be opened will say so when it is read
            return None

    def begin(self) -> None:
        self._counts = self._read()
        self._wall, self._cpu = time.perf_counter(), self._core_time()

    def end(self) -> tuple:
        """(busy_s, cpu_s, waited_s, stats)"""
        busy, cpu = time.perf_counter() - self._wall, self._core_time() - self._cpu
        stats: Dict[str, Any] = {}
        stall, now = 0.0, self._read()
        if self._counts is not None and now is not None:
            *counts, stall = [b - a for a, b in zip(self._counts, now)]
            stats.update(zip(self.COUNTERS, counts))
        errors = _take_errors(self._dataset)
        if errors is not None:
            stats["errors"] = errors
        return busy, cpu, stall, stats


def _name_of_sample(dataset: Any, index: int) -> str:
    """ "sample 421 (train/7.jpg)", the key where the dataset is ours."""
    try:
        part, = _parts(dataset)
        handle, mapping = part.source()
        return f"sample {index} ({handle.key(index if mapping is None else mapping[index])})"
    except Exception:
        return f"sample {index}"


def _place(config: BatchConfig, number: int) -> str:
    sample = sample_of(_cells, number)
    where = f"batch {number}"
    return where if sample is None else f"{where}, {_name_of_sample(config.dataset, sample)}"


def _samples(config: BatchConfig, task: BatchTask, stats: Dict[str, Any]) -> int:
    if not config.auto_collation:
        return 1
    return len(task.indices) - stats.get("errors", {}).get("skipped", 0)


class _Text(str):
    """A message that KeyError shows as it is."""

    def __repr__(self) -> str:
        return str(self)


class Failure:
    """An exception that travels to the parent, with its traceback as text and where it happened."""

    def __init__(self, error: BaseException, where: str) -> None:
        self.kind = type(error).__name__
        self.text = (f"{self.kind} in {where}. Original traceback:\n"
                     + "".join(traceback.format_exception(type(error), error, error.__traceback__)))
        self.pickled = _pickled(error)

    def rebuild(self) -> BaseException:
        """An exception of the same type that says all this; a RuntimeError where that cannot be."""
        for build in (self._with_attributes, self._with_text):
            try:
                error = build()
                # A StopIteration would end the loop of the user in silence.
                if self.text in str(error) and not isinstance(error, StopIteration):
                    return error
            except Exception:
                continue
        return RuntimeError(self.text)

    def _with_attributes(self) -> BaseException:
        error = pickle.loads(self.pickled)
        error.args = (_Text(self.text),)
        if isinstance(error, OSError) and error.strerror is not None:  # it says those, not its args
            error.strerror = self.text
        return error

    def _with_text(self) -> BaseException:
        return type(pickle.loads(self.pickled))(_Text(self.text))


def _pickled(error: BaseException) -> bytes:
    """The exception, or one of its type without its attributes; empty if neither can be pickled."""
    for candidate in (lambda: error, lambda: type(error)("")):
        try:
            data = pickle.dumps(candidate(), 5)
            if isinstance(pickle.loads(data), type(error)):
                return data
        except Exception:
            continue
    return b""


class _RandomState:
    """The random state of the training process, put aside while a batch is made in it."""

    def __enter__(self) -> None:
        self._numpy = sys.modules.get("numpy")
        self._states = (torch.get_rng_state(), random.getstate(),
                        self._numpy.random.get_state() if self._numpy else None)

    def __exit__(self, *_) -> None:
        torch.set_rng_state(self._states[0])
        random.setstate(self._states[1])
        if self._numpy:
            self._numpy.random.set_state(self._states[2])


def make_here(config: BatchConfig, task: BatchTask,
              core_time: Callable[[], float] = time.process_time) -> BatchResult:
    """Makes a batch in this process. An error keeps its traceback; a note says where it was."""
    meter, batch, error = _Meter(config.dataset, core_time), None, None
    with _RandomState():
        meter.begin()
        try:
            batch = make_batch(config, task)
        except Exception as e:
            e.add_note(f"dlcache: in {_place(config, task.number)}")
            error = RuntimeError(str(e)) if isinstance(e, StopIteration) else e
    spent = meter.end()
    return BatchResult(task.number, batch, error, _samples(config, task, spent[-1]), *spent)


# ---- what runs in a worker process ----


def _watch(sock: socket.socket, parent: int) -> None:
    """Ends the process if its parent has ended and the current batch takes too long."""
    poll = select.poll()
    poll.register(sock, 0)
    while not poll.poll(1000) and os.getppid() == parent:
        pass
    time.sleep(ORPHAN_S)
    os._exit(1)


def _die_with(parent: int) -> None:
    """Asks the kernel for SIGKILL when the parent dies. Only for children of its main thread: the
    kernel means the thread that forked, not the process."""
    try:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    except (OSError, AttributeError):
        return
    if os.getppid() != parent:
        os._exit(1)


def _stack_into(link: transport.WorkerEnd) -> None:
    """Has default_collate stack tensors in shared memory that is used again, where torch would make
    new shared memory for each batch. Whoever calls default_collate gets it, in this process."""
    try:
        from torch.utils.data._utils.collate import collate_tensor_fn, default_collate_fn_map
    except ImportError:
        return
    if default_collate_fn_map.get(torch.Tensor) is not collate_tensor_fn:
        return  # the user has put in another

    def stack(batch, *, collate_fn_map=None):
        first = batch[0]
        dtype = first.dtype
        if getattr(first, "is_nested", False):
            return collate_tensor_fn(batch, collate_fn_map=collate_fn_map)  # says what is wrong
        if first.layout is not torch.strided or not first.is_cpu:
            return torch.stack(batch, 0)
        if any(type(t) is not torch.Tensor or t.dtype is not dtype or t.requires_grad
               for t in batch):
            return torch.stack(batch, 0)
        nbytes = len(batch) * first.numel() * first.element_size()
        return torch.stack(batch, 0, out=link.empty((len(batch), *first.shape), dtype, nbytes))

    default_collate_fn_map[torch.Tensor] = stack


class _Worker:
    def __init__(self, link: transport.WorkerEnd, config: BatchConfig, ident: int,
                 num_workers: int) -> None:
        self.link, self.config, self.ident = link, config, ident
        self.tasks: deque = deque()  # None: one to skip
        self.retired = False
        self.meter = _Meter(config.dataset, Core().seconds)
        self.failure = self._begin(num_workers)

    def _begin(self, num_workers: int) -> Optional[Failure]:
        """Does what torch does at the start of a worker."""
        torch.set_num_threads(1)
        seed = self.config.base_seed + self.ident
        _seed(seed)
        info = torch.utils.data._utils.worker
        info._worker_info = info.WorkerInfo(id=self.ident, num_workers=num_workers, seed=seed,
                                            dataset=self.config.dataset)
        try:
            if self.config.worker_init_fn is not None:
                self.config.worker_init_fn(self.ident)
        except Exception as e:
            return Failure(e, f"worker_init_fn of worker {self.ident}")
        return None

    def _take(self, message: Any) -> None:
        if message is None:
            self.retired = True
        elif isinstance(message, int):
            self.tasks = deque(t if t and t.number >= message else None for t in self.tasks)
        else:
            self.tasks.append(BatchTask(*message))

    def _pump(self) -> None:
        """Receives all messages of the parent; waits only if there is nothing to do."""
        message = self.link.receive(wait=not self.tasks)
        while message is not None:
            self._take(*message)
            message = self.link.receive(wait=False)

    def run(self) -> None:
        self.link.send(READY)
        while True:
            self._pump()
            if self.retired:
                return
            if self.tasks:
                task = self.tasks.popleft()
                self._do(task) if task is not None else self.link.send(SKIPPED)

    def _do(self, task: BatchTask) -> None:
        failure, packed = self.failure, None
        self.meter.begin()
        if failure is None:
            try:
                packed = self.link.pack(make_batch(self.config, task))
            except Exception as e:
                failure = Failure(e, f"worker {self.ident}, {_place(self.config, task.number)}")
        spent = self.meter.end()
        samples = _samples(self.config, task, spent[-1])
        self.link.send((task.number, failure, samples, *spent), packed)


def main(sock: socket.socket, config: BatchConfig, ident: int, num_workers: int,
         parent: Optional[int]) -> None:
    """Main function of a worker process. `parent`: pid whose death ends this process, or None."""
    global _cells
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
    if parent is not None:
        _die_with(parent)
    threading.Thread(target=_watch, args=(sock, os.getppid()), daemon=True).start()
    try:
        link = transport.WorkerEnd(sock)
        _cells = link.cells
        _cells[_BATCH] = _cells[_SAMPLE] = _NOBODY
        _stack_into(link)
        _Worker(link, config, ident, num_workers).run()
    except (EOFError, BrokenPipeError, ConnectionResetError):
        pass  # the parent has ended, or closed the pool
