# SPDX-License-Identifier: Apache-2.0
"""DataLoader: torch's, with the number of workers found while it runs and no gap between epochs.

    from dlcache.torch import DataLoader          # was: from torch.utils.data import DataLoader

It connects the parts: EpochState decides which batches come, BatchQueue has workers make them ahead
of time, OrderClient announces the order to the daemon, Autoscaler chooses the number of workers,
ReportBuilder counts. python/README.md has a diagram. Any torch dataset works; only the bytes of
dlcache datasets are fetched ahead.

(LOADER-1) Each batch of an epoch is handed out exactly once.
(LOADER-2) Batches depend on sampler, seed, epoch and position, not on workers or timing. A relaxed
     order promises only that each sample comes once.
(LOADER-3) No process outlives its loader, and a loader may be dropped at any time.
"""

from __future__ import annotations

import os
import time
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch
import torch.utils.data
from torch.autograd.profiler import record_function
from torch.utils.data import IterableDataset, Sampler

import dlcache
from dlcache.torch.dataset import Dataset
from dlcache.torch.order.batch_plans import BatchPlan
from dlcache.torch.order.epoch_state import EpochState
from dlcache.torch.order.importance import ImportanceSampler, learn, learner, row_of
from dlcache.torch.order.order_client import OrderClient
from dlcache.torch.order.samplers import ShuffleRandomSampler, ShuffleSequentialSampler
from dlcache.torch.pipeline.autoscale import Autoscaler
from dlcache.torch.pipeline.batch_queue import BatchQueue, LocalBatches
from dlcache.torch.pipeline.host_limits import cores, workers_that_fit
from dlcache.torch.pipeline.worker import BatchConfig, BatchResult
from dlcache.torch.pipeline.worker_pool import WorkerDied, WorkerPool
from dlcache.torch.progress import Progress
from dlcache.torch.epoch_times import CopyClock
from dlcache.torch.gpu_monitor import GpuMonitor
from dlcache.torch.report import Report, ReportBuilder
from dlcache.torch.sources import source_of

__all__ = ["DataLoader"]

_START = 4        # "auto" begins with so many workers, if there are as many cores
_MOST = 16        # and has at most so many, or four for each core


class _Auto(int):
    """num_workers="auto", as a number for those who ask: how many there were to begin with. Given
    to another loader, as Lightning does, it means "auto" again."""


class DataLoader(torch.utils.data.DataLoader):
    """Batches of a dataset, made ahead by worker processes.

    Takes all that torch.utils.data.DataLoader takes, of torch 1.13 and of 2.x. What is different:

    Args:
        num_workers: "auto" (default): found while training runs, and changed when it changes. A
            number: that many. 0: batches are made in this process. For an IterableDataset torch's
            own loader is used, and "auto" means a fixed number.
        shuffle: Without a sampler, True and False give dlcache.torch.Shuffle, which is `sampler`
            then. Its seed is drawn once, at the first iteration, from `generator` or torch's
            default one.
        persistent_workers: None (default): workers are kept between epochs if the dataset is a
            dlcache.torch.Dataset, and restarted when one of its attributes was set.
        prefetch_factor: Batches per worker that are made ahead; None: 2.
        in_order: As in torch 2.x; the same as order="strict" or "relaxed".
        max_workers: The most that "auto" may take.
        epochs: How many iterations there will be, if that is known: nothing is made ahead after
            the last one.
        order: "strict" (default), or "relaxed": batches come as they are finished, each once; and
            with dlcache.torch.Shuffle what is in the cache's memory comes before what is not, each
            sample once.
        window: Samples that the daemon fetches ahead of the loader, within its memory, where you know
            better. 0 (default): it measures.
        progress: Show a line on stderr.
    """

    def __init__(self, dataset: Any, batch_size: int | None = 1, shuffle: bool | None = None,
                 sampler: Sampler | Iterable | None = None,
                 batch_sampler: Sampler[Sequence] | Iterable[Sequence] | None = None,
                 num_workers: int | str = "auto", collate_fn: Callable | None = None,
                 pin_memory: bool = False, drop_last: bool = False, timeout: float = 0,
                 worker_init_fn: Callable[[int], None] | None = None,
                 multiprocessing_context: Any = None, generator: torch.Generator | None = None, *,
                 prefetch_factor: int | None = None, persistent_workers: bool | None = None,
                 pin_memory_device: str = "", in_order: bool = True,
                 max_workers: int | None = None, epochs: int | None = None, order: str = "strict",
                 window: int = 0, progress: bool = False) -> None:
        if window < 0:
            raise ValueError(f"window={window}: give a number of samples, or 0 for what is measured")
        if order not in ("strict", "relaxed"):
            raise ValueError(f'order={order!r}: it is "strict" or "relaxed"')
        if max_workers is not None and max_workers < 1:
            raise ValueError(f"max_workers={max_workers}: give at least 1, or num_workers=0 to "
                             "make batches in this process")
        if epochs is not None and epochs < 1:
            raise ValueError(f"epochs={epochs}: give at least 1, or None when it is not known")
        workers = _number_of(num_workers, max_workers)
        iterable = isinstance(dataset, IterableDataset)
        if sampler is None and batch_sampler is None and not iterable:
            kind = ShuffleRandomSampler if shuffle else ShuffleSequentialSampler
            sampler = kind(dataset, generator)
            shuffle = None
        importance = _base_sampler(batch_sampler if sampler is None else sampler)
        if isinstance(importance, ImportanceSampler):
            _check_importance_sampler(importance, dataset)
        if persistent_workers is None:
            persistent_workers = workers > 0 and not iterable and _version_of(dataset) is not None
        more: dict[str, Any] = {"persistent_workers": persistent_workers}
        if prefetch_factor is not None:
            more["prefetch_factor"] = prefetch_factor
        if pin_memory_device:
            more["pin_memory_device"] = pin_memory_device
        if not in_order and iterable:
            more["in_order"] = False
        super().__init__(dataset, batch_size, shuffle, sampler, batch_sampler, workers, collate_fn,
                         pin_memory, drop_last, timeout, worker_init_fn, multiprocessing_context,
                         generator, **more)
        self.in_order, self.order, self.window = in_order, order, window
        self.max_workers, self.epochs, self.progress = max_workers, epochs, progress
        self._engine = self._new_engine()

    def __iter__(self) -> Iterator:
        return super().__iter__() if self._engine is None else self._engine.iterate(self)

    def _new_engine(self) -> _Engine | None:
        if isinstance(self.dataset, IterableDataset):
            return None
        return _Engine(EpochState(self.sampler, self.batch_sampler, dataset=self.dataset,
                                  generator=self.generator, epochs=self.epochs))

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in vars(self).items() if k not in ("_engine", "_iterator")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _iterator=None)
        self.__dict__["_engine"] = self._new_engine()

    def learn(self, losses: Any) -> None:
        """The losses of the batch that was handed out last, one for each sample in it (a tensor on
        any device, an array or a list), for a sampler that learns: ImportanceSampler."""
        engine = self._own()
        engine.log.learn(learner(_base_sampler(engine.epoch_state.sampler)), losses)

    def state_dict(self) -> dict[str, Any]:
        """Where the latest iteration is, counted by the batches that were handed out; plain Python.

        A state is exact in mid-epoch: what follows is what would have followed, random transforms
        included. With Shuffle, DistributedSampler and ImportanceSampler it may be taken back on
        another number of ranks.
        """
        return self._own().epoch_state.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on there with the next iteration."""
        self._own().epoch_state.load_state_dict(state)

    def copy(self, batch: Any, device: Any) -> Any:
        """The batch with its tensors on `device`; report() tells how long copies take. From pinned
        memory (pin_memory=True) to a GPU it does not wait."""
        return self._own().log.copies.copy(batch, device)

    def report(self) -> Report:
        """What was measured since the loader was made: figures, and a text for people."""
        return self._own().report()

    def _own(self) -> _Engine:
        if self._engine is None:
            raise TypeError("an IterableDataset is read by torch's own loader: there is neither "
                            "state nor report of it")
        return self._engine


def _number_of(num_workers: int | str, most: int | None) -> int:
    if isinstance(num_workers, _Auto) or num_workers == "auto":
        return _Auto(min(cores(), _START, most or _MOST))
    if isinstance(num_workers, str):
        raise ValueError(f'num_workers={num_workers!r}: it is a number or "auto"')
    return num_workers


def _version_of(dataset: Any) -> Any:
    """Of a dataset of ours, also behind torch's Subset: another value when it has been changed."""
    if type(dataset) is torch.utils.data.Subset:
        below = _version_of(dataset.dataset)
        return below and (below, id(dataset.indices), len(dataset.indices))
    return (id(dataset), dataset.version) if isinstance(dataset, Dataset) else None


def _base_of(dataset: Any) -> Any:
    """What is behind torch's Subset."""
    while isinstance(dataset, torch.utils.data.Subset):
        dataset = dataset.dataset
    return dataset


def _base_sampler(sampler: Any) -> Any:
    """The one that learns: of a batch sampler that cannot, the sampler it cuts into batches."""
    below = getattr(sampler, "sampler", None)
    return sampler if below is None or hasattr(sampler, "update") else below


def _check_importance_sampler(sampler: ImportanceSampler, dataset: Any) -> None:
    """Of a dataset of another maker only the length is known."""
    source = source_of(dataset)
    if source is not None:
        sampler.check(source)
    elif sampler.n != len(dataset):
        raise ValueError(f"the sampler is of {sampler.n} samples and the dataset has "
                         f"{len(dataset)}: make ImportanceSampler of what it reads")


def _config_of(loader: DataLoader, seed: int) -> BatchConfig:
    fixed = 0 if isinstance(loader.num_workers, _Auto) else loader.num_workers
    return BatchConfig(loader.dataset, loader.collate_fn, loader.batch_sampler is not None,
                       loader.drop_last, loader.worker_init_fn, seed, fixed)


def _pin_of(loader: DataLoader) -> str | None:
    """Where to pin: None, a device's name, or "" for the default."""
    if not loader.pin_memory:
        return None
    if getattr(loader, "pin_memory_device", ""):
        return loader.pin_memory_device
    if not torch.cuda.is_available():
        warnings.warn("pin_memory=True, but there is no GPU: batches are not pinned", stacklevel=4)
        return None
    return ""


def _source_of(dataset: Any) -> tuple[dlcache.Dataset, Any] | None:
    try:
        return source_of(dataset)
    except (dlcache.Error, OSError) as error:  # workers will try again, and say it if need be
        warnings.warn(f"dlcache: nothing is fetched ahead: {error}", stacklevel=4)
        return None


def _named(died: WorkerDied, source: tuple[dlcache.Dataset, Any] | None) -> RuntimeError:
    """What the pool says of a death, and the key of the sample."""
    text = f"dlcache: {died}"
    if source is not None and died.sample is not None:
        handle, mapping = source
        try:
            key = handle.key(died.sample if mapping is None else mapping[died.sample])
            text += f"; sample {died.sample} is {key}"
        except Exception:
            pass  # the message is good enough without
    return RuntimeError(text)


class _Pipeline:
    """What iterations run on: the workers, their number, and the order client.

    The loader holds it, and so does the iteration that runs on it: it goes when both are gone, and
    its workers with it. `batches` is that iteration, weakly: when it is gone the pipeline is free.
    """

    def __init__(self, loader: DataLoader, epoch_state: EpochState, settings: tuple) -> None:
        self.settings = settings
        self.pid = os.getpid()
        self.lost = False  # another pipeline has replaced it
        self.batches: weakref.ref | None = None
        self.source = _source_of(loader.dataset)
        targets = getattr(_base_of(loader.dataset), "reads_targets", False)
        keep, relaxed, pin, prefetch = settings[1:]
        sampler = _base_sampler(epoch_state.sampler)
        join = sampler.join if isinstance(sampler, ImportanceSampler) else None
        self.order_client = (OrderClient(self.source, targets, relaxed, join, loader.window)
                             if self.source is not None else None)
        workers = loader.num_workers
        auto = isinstance(workers, _Auto) and workers > 0
        most = loader.max_workers or max(_MOST, 4 * cores())
        self.autoscaler = Autoscaler(cores(), most, min(int(workers), most)) if auto else None
        here = auto and loader.worker_init_fn is None and not loader.timeout
        if workers == 0:
            self.batch_queue: Any = LocalBatches(self.order_client, epoch_state, pin)
        else:
            self.batch_queue = BatchQueue(int(workers), prefetch, self.order_client, epoch_state,
                                          keep=keep, relaxed=relaxed, pin=pin, here=here)

    @property
    def free(self) -> bool:
        return self.batches is None or self.batches() is None

    def release(self) -> None:
        """The iteration is over or was dropped."""
        self.batches = None
        if self.pid == os.getpid():
            self.close() if self.lost else self.batch_queue.end()

    def close(self) -> None:
        if self.pid != os.getpid():
            return
        try:
            self.batch_queue.close()
        finally:
            if self.order_client is not None:
                self.order_client.close()

    def daemon_stats(self) -> dict[str, Any] | None:
        return self.order_client.daemon_stats() if self.order_client is not None else None

    def scale(self, waited_s: float, step_s: float, samples: int) -> None:
        """Ask for how many workers there should be, and have them."""
        if self.autoscaler is None:
            return
        queue = self.batch_queue
        n = len(queue.recent) or 1
        wanted = self.autoscaler.step(waited_s, step_s, sum(d.busy_s for d in queue.recent) / n,
                                      sum(d.cpu_s for d in queue.recent) / n, samples)
        if wanted > queue.size:
            self.autoscaler.limit = min(self.autoscaler.limit, max(1, workers_that_fit(queue.pids)))
            wanted = min(wanted, self.autoscaler.limit)
        if wanted != queue.size:
            queue.resize(wanted)


class _Engine:
    """All of a loader that works; it knows the loader only while an iteration begins.

    Nothing here refers back to who holds it: dropping the last reference ends the workers.
    """

    def __init__(self, epoch_state: EpochState) -> None:
        self.epoch_state = epoch_state
        self.log = _BatchLog()
        self._pipeline: _Pipeline | None = None

    def report(self) -> Report:
        return self.log.report(self._pipeline)

    def iterate(self, loader: DataLoader) -> _BatchIterator:
        began = time.perf_counter()
        pin = _pin_of(loader)
        plan = self.epoch_state.begin()
        relaxed = loader.order == "relaxed" or not loader.in_order
        prefetch = loader.prefetch_factor or 2
        settings = (loader.num_workers, loader.persistent_workers, relaxed, pin, prefetch)
        pipeline = self._free_pipeline(loader, settings)
        self.log.begin(pipeline, loader.progress, loader.dataset,
                       _base_sampler(self.epoch_state.sampler))
        config = _config_of(loader, self.epoch_state.seed)
        context, timeout = loader.multiprocessing_context, loader.timeout

        def new_pool() -> WorkerPool:
            return WorkerPool(config, context, timeout=timeout, prefetch=prefetch)
        try:
            pipeline.batch_queue.begin(plan, _version_of(loader.dataset), config, new_pool)
            return _BatchIterator(pipeline, plan, self.log, time.perf_counter() - began)
        except BaseException:
            pipeline.batch_queue.close()  # no worker outlives a Ctrl-C
            raise

    def _free_pipeline(self, loader: DataLoader, settings: tuple) -> _Pipeline:
        pipeline = self._pipeline
        if pipeline is not None and pipeline.pid == os.getpid():
            if pipeline.free and pipeline.settings == settings:
                return pipeline
            if pipeline.free:
                pipeline.close()
            else:
                pipeline.lost = True
        self._pipeline = _Pipeline(loader, self.epoch_state, settings)
        return self._pipeline


class _BatchLog:
    """Reports each batch to the ReportBuilder, the progress line and the dataset."""

    MONEY_S = 5.0  # the daemon is asked for the price no more often

    def __init__(self) -> None:
        self._builder = ReportBuilder()
        self._progress: Progress | None = None
        self._counting: Any = None  # the dataset, if it counts the errors of its copies in workers
        self._before: dict[str, Any] | None = None  # what the daemon said at the beginning
        self._usd, self._asked_at = 0.0, 0.0
        self._learns = False
        self._last: tuple[Any, Any] | None = None  # indices and places of the latest batch
        self._sampler, self._n = None, 0
        self.copies, self._gpus = CopyClock(), GpuMonitor()

    def begin(self, pipeline: _Pipeline, progress: bool, dataset: Any, sampler: Any) -> None:
        if self._before is None:
            self._before = pipeline.daemon_stats()
        self._builder.rows.begin(self._before)
        self._sampler, self._learns = sampler, hasattr(sampler, "update")
        self._n = len(dataset) if hasattr(dataset, "__len__") else 0
        if isinstance(sampler, ImportanceSampler):
            builder = self._builder
            sampler.watch(lambda: (builder.causes["bucket"], builder.wall_s))
        dataset = _base_of(dataset)
        counts = pipeline.batch_queue.size > 0 and hasattr(dataset, "add_errors")
        self._counting = dataset if counts else None
        if progress and self._progress is None:
            self._progress = Progress()
            weakref.finalize(self, self._progress.close)

    def batch(self, pipeline: _Pipeline, plan: BatchPlan, result: BatchResult, waited_s: float,
              step_s: float) -> None:
        queue = pipeline.batch_queue
        self._builder.batch(result.samples, waited_s, step_s, queue.size,
                            stats=dict(result.stats, stall_s=result.waited_s), busy_s=result.busy_s,
                            cpu_s=result.cpu_s, transport_s=queue.transport_s,
                            copied_s=self.copies.take())
        self._gpus.sample()
        errors = result.stats.get("errors", {})
        if self._learns:
            self._last = plan.batch(queue.handed), errors.get("places")
        if self._counting is not None and errors:
            self._counting.add_errors(errors)
        if self._progress is not None and self._progress.due():
            self._show(pipeline, plan)

    def learn(self, sampler: Any, losses: Any) -> None:
        if self._last is None:
            raise RuntimeError("learn() before the first batch: call it with the losses of a batch "
                               "that the loader has handed out")
        indices, places = self._last
        learn(sampler, indices if isinstance(indices, list) else [indices], losses, places)

    def epoch_end(self, pipeline: _Pipeline, plan: BatchPlan, step_s: float) -> None:
        stats = pipeline.daemon_stats()
        daemon_epoch = pipeline.order_client.daemon_epoch_of(plan) if stats is not None else None
        self._builder.epoch_end(row_of(plan, self._sampler, self._n), stats, daemon_epoch,
                                step_s, self.copies.take())
        if self._progress is not None:
            self._show(pipeline, plan)

    def end_line(self) -> None:
        if self._progress is not None:
            self._progress.end_line()

    def _show(self, pipeline: _Pipeline, plan: BatchPlan) -> None:
        length = 0 if plan.count() is None else plan.length()
        self._progress.show(self._builder, plan.epoch, plan.before(plan.handed), length,
                            self._money(pipeline))

    def report(self, pipeline: _Pipeline | None) -> Report:
        now = pipeline.daemon_stats() if pipeline is not None else None
        return self._builder.report([(self._before, now)] if self._before and now else [],
                                    self._gpus.figures())

    def _money(self, pipeline: _Pipeline) -> float:
        if time.monotonic() - self._asked_at > self.MONEY_S:
            self._asked_at = time.monotonic()
            self._usd = self.report(pipeline).money_usd
        return self._usd


def _end(pipeline: _Pipeline, log: _BatchLog) -> None:
    """The iteration is over or was dropped."""
    pipeline.release()
    log.end_line()


class _BatchIterator(Iterator):
    """One iteration over a loader."""

    def __init__(self, pipeline: _Pipeline, plan: BatchPlan, log: _BatchLog,
                 began_s: float) -> None:
        self._pipeline: _Pipeline | None = pipeline
        self._plan, self._before = plan, plan.handed + len(plan.out)
        self._log = log
        self._began_s = began_s          # what beginning has taken: the first batch waited for it
        self._left: float | None = None  # when the user got the last batch
        pipeline.batches = weakref.ref(self)
        self._dropped = weakref.finalize(self, _end, pipeline, log)

    def __len__(self) -> int:
        """Batches of this iteration in all, without those handed out before it was resumed."""
        count = self._plan.count()
        if count is None:
            raise TypeError("the sampler does not say how many batches there are")
        return count - self._before

    def __next__(self) -> Any:
        pipeline = self._pipeline
        try:
            with record_function("enumerate(dlcache.DataLoader).__next__"):
                result = self._next()
        except KeyboardInterrupt:
            if pipeline is not None:
                pipeline.batch_queue.close()  # wherever it fell, no worker outlives it
            raise
        if result.error is None:
            return result.batch
        try:
            raise result.error
        finally:
            del result  # or error and traceback hold each other

    def _next(self) -> BatchResult:
        """The next batch that is one: of some, all samples were bad and left out."""
        while True:
            result = self._next_result()
            if result.samples > 0 or result.error is not None or "errors" not in result.stats:
                return result

    def _next_result(self) -> BatchResult:
        pipeline = self._pipeline
        if pipeline is None:
            raise StopIteration
        asked = time.perf_counter()
        try:
            result = pipeline.batch_queue.next()
            self._account(pipeline, result, asked)
        except StopIteration:
            self._plan.finished = True
            self._log.epoch_end(self._pipeline, self._plan, self._step_s(asked))
            self._release()
            raise
        except WorkerDied as died:
            self._release()
            died.__traceback__ = None  # its frames refer to the queue and its workers
            raise _named(died, pipeline.source) from None
        except BaseException:
            self._release()
            raise
        return result

    def _step_s(self, asked: float) -> float:
        return 0.0 if self._left is None else asked - self._left

    def _account(self, pipeline: _Pipeline, result: BatchResult, asked: float) -> None:
        step_s = self._step_s(asked)
        waited_s = time.perf_counter() - asked + self._began_s
        self._began_s = 0.0
        pipeline.scale(waited_s, step_s, result.samples)
        self._log.batch(pipeline, self._plan, result, waited_s, step_s)
        self._left = time.perf_counter()

    def _release(self) -> None:
        self._pipeline = None
        self._dropped()
