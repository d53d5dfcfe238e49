# SPDX-License-Identifier: Apache-2.0
"""ImageLoader, AudioLoader, TensorLoader: batches made by C threads of this process.

    loader = ImageLoader("s3://my-bucket/train/", 256, shuffle=True,
                         transforms=[RandomResizedCrop(224), HorizontalFlip()], device="cuda")
    for epoch in range(90):
        for images, labels in loader:
            ...

No Python runs for a sample, and no worker process. How many threads there are follows the training
step. docs/loader.md has all of it.

(NATIVE-1) The content of a batch depends only on (data, transforms, seed, epoch, position, rank,
     world) and on the indices of a sampler.
(NATIVE-2) A tensor of a batch is a view of the batch's own memory, which is reused when the last
     tensor of it is gone. On a device it is the device's memory.
(NATIVE-3) Threads end with the loader, even if batches of it are still held. In a forked child a
     loader opens again when it is iterated.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import torch

import dlcache
from dlcache import _dlcache
from dlcache.errors import other_snapshot
from dlcache.torch.device_copies import DeviceCopies, indices_of, small_of
from dlcache.torch.epoch_rows import EpochRow, EpochRows
from dlcache.torch.epoch_times import EpochClock, EpochTimes
from dlcache.torch.gpu_monitor import GpuFigures, GpuMonitor
from dlcache.torch.order.batch_plans import BatchPlan
from dlcache.torch.order.importance import ImportanceSampler, learn, learner, row_of
from dlcache.torch.order.native_order import NativeOrder
from dlcache.torch.order.ranks import open_agreed
from dlcache.torch.order.samplers import Shuffle, distributed
from dlcache.torch.transforms import settings_of

__all__ = ["AudioBatch", "AudioLoader", "ImageBatch", "ImageLoader", "LoaderReport", "TensorBatch",
           "TensorLoader"]

_IMAGES, _AUDIO, _TENSORS = 1, 2, 3
_EXPLICIT = 2
_DTYPES = {"uint8": 1, "float32": 2, "float16": 3, "int32": 4, "int64": 5, "int8": 6, "int16": 7,
           "uint16": 8, "uint32": 9, "uint64": 10, "float64": 11, "bool": 12}
_FORMATS = {"uint8": "B", "float32": "f", "float16": "e", "int32": "i", "int64": "q"}
_ON_BAD = {"raise": 0, "skip": 1, "replace": 2}
_SWITCH = {"auto": 0, True: 1, "on": 1, False: 2, "off": 2}
_SEEDS = 2**64


class _ImageBatch(NamedTuple):
    images: Any  #: [samples, 3, height, width]
    labels: Any  #: int64, -1 for none


class ImageBatch(_ImageBatch):
    indices: Any = None  #: int64, in host memory: the number of each sample


class _AudioBatch(NamedTuple):
    sounds: Any  #: float32 [samples, channels, length] or [samples, channels, mels, frames]
    lengths: Any  #: int64: what is not padding
    labels: Any  #: int64, -1 for none


class AudioBatch(_AudioBatch):
    indices: Any = None  #: as of ImageBatch


class _TensorBatch(NamedTuple):
    tensors: Any  #: [samples, ...]
    labels: Any  #: int64, -1 for none


class TensorBatch(_TensorBatch):
    indices: Any = None  #: as of ImageBatch


@dataclass(frozen=True)
class LoaderReport:
    """What was measured since the loader was opened."""

    batches: int
    samples: int
    bad: int  #: left out or replaced
    from_decoded_cache: int  #: made from the decoded cache
    decoded: int  #: made from their bytes
    decoded_cache_samples: int  #: in the decoded cache of the daemon, whoever decoded them
    decoded_cache_bytes: int
    waited_s: float  #: the training loop, for batches
    step_s: float  #: the training loop, between batches
    busy_s: float  #: threads made samples, all together
    starved_s: float  #: threads waited for bytes, all together
    threads: int  #: that work now
    ready: int  #: batches that can be had at once
    bad_samples: list[tuple[int, str]]  #: the first thousand: number, and why
    by_epoch: list[EpochRow] = field(default_factory=list)  #: what each epoch saw
    times: list[EpochTimes] = field(default_factory=list)  #: of each epoch; copies are in the step
    gpus: list[GpuFigures] = field(default_factory=list)  #: none without NVML

    def __str__(self) -> str:
        total = self.waited_s + self.step_s
        share = 100 * self.waited_s / total if total else 0.0
        lines = [f"{self.samples} samples in {self.batches} batches; "
                 f"waited {self.waited_s:.2f} s ({share:.1f} %) for them",
                 f"{self.threads} threads; busy {self.busy_s:.2f} s in all, "
                 f"{self.starved_s:.2f} s without bytes"]
        if self.decoded_cache_samples:
            lines.append(f"{self.from_decoded_cache} samples from the decoded cache "
                         f"({self.decoded_cache_samples} samples, "
                         f"{self.decoded_cache_bytes / 2**20:.0f} MiB), {self.decoded} decoded")
        if self.by_epoch:
            lines.append(self.by_epoch[-1].text())
        lines += [g.text() for g in self.gpus]
        if self.bad:
            lines.append(f"{self.bad} bad samples, such as:")
            lines += [f"  {why}" for _, why in self.bad_samples[:5]]
        return "\n".join(lines)


def _name_of(dtype: Any) -> str:
    return str(dtype).rsplit(".", 1)[-1]


def _choice(name: str, value: Any, table: dict) -> int:
    if value not in table:
        raise ValueError(f"{name}={value!r}: one of {', '.join(map(repr, table))}")
    return table[value]


class _Loader:
    """What the three have in common; see docs/loader.md for the arguments."""

    _kind = 0

    def __init__(self, source: str | dlcache.Dataset, batch_size: int, *, own: tuple,
                 shape: tuple[int, ...], dtype: str, rows: bool = False, shuffle: bool = False,
                 sampler: Any = None, seed: int = 0,
                 drop_last: bool = False, split: str | None = None, rank: int | None = None,
                 world: int | None = None, device: Any = None, on_bad: str = "raise",
                 threads: int | str = "auto", ring: int = 4, decoded_cache: Any = "auto",
                 output: str = "torch", epochs: int = 0, **options: Any) -> None:
        if batch_size < 1:
            raise ValueError(f"batch_size={batch_size}: give at least 1")
        if output not in ("torch", "numpy", "dlpack"):
            raise ValueError(f'output={output!r}: "torch", "numpy" or "dlpack"')
        if sampler is not None and shuffle:
            raise ValueError("sampler option is mutually exclusive with shuffle")
        found = distributed() if rank is None or world is None else (0, 1)
        self.rank = found[0] if rank is None else rank
        self.world = found[1] if world is None else world
        if isinstance(source, dlcache.Dataset):
            if options:
                raise TypeError(f"{', '.join(options)}: of a dataset that is open already")
            options = source.again()
            source = source.url
        self.url, self._options = source, options
        self.batch_size = batch_size
        self.shuffle, self.seed, self.drop_last, self.split = shuffle, seed, drop_last, split
        self.on_bad, self.threads, self.output = on_bad, threads, output
        self.device = None if device is None else torch.device(device)
        if self.device is not None and self.device.type == "cpu":
            self.device = None
        if self.device is not None and output != "torch":
            raise ValueError(f"output={output!r} on {self.device}: only torch has tensors there")
        self._sampler_order = None if sampler is None else NativeOrder(sampler, seed, epochs)
        self._own, self._shape, self._dtype, self._rows = own, shape, dtype, rows
        self._ring, self._epochs = ring, epochs
        self._decoded_cache = _choice("decoded_cache", decoded_cache, _SWITCH)
        self._bad = _choice("on_bad", on_bad, _ON_BAD)
        self._state = (0, 0)   # where the user is: (epoch, position of this rank)
        self._start = 0        # else: all ranks took so many before position 0; see _deal()
        self._begun = False    # the epoch of _state is being iterated
        self._indices: Any = None  # of the batch that was handed out last
        self._opened: _OpenLoader | None = None
        self._last: LoaderReport | None = None
        self._epochs_seen, self._epoch_began_s = EpochRows(), 0.0
        self._clock, self._clocked = EpochClock(), (0.0, 0.0)
        self._open()           # a wrong URL or setting is said here

    # ---- opening ----

    def _open(self) -> _OpenLoader:
        o = self._opened
        if o is not None and o.pid == os.getpid() and o.batch_size == self.batch_size \
                and o.listed == (self._sampler_order is not None):
            return o
        if o is not None:
            o.close()
        self._opened = o = _OpenLoader(self)
        self._epochs_seen.begin(o.daemon_stats())
        self._epoch_began_s = 0.0
        return o

    def _range(self, handle: dlcache.Dataset) -> range:
        if self.split is None:
            return range(len(handle))
        if self.split not in handle.splits:
            raise ValueError(f"split={self.split!r}: {self.url} has "
                             f"{', '.join(handle.splits) or 'none'}")
        return handle.splits[self.split]

    def close(self) -> None:
        """End its threads; batches that are held stay good. Iterating it again opens it again."""
        if self._opened is not None:
            if self._opened.pid == os.getpid():
                self._last = self.report()
            self._opened.close()
            self._opened = None

    def __enter__(self) -> _Loader:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_opened": None}

    # ---- iterating ----

    def __len__(self) -> int:
        """Batches of a whole epoch."""
        if self._sampler_order is None:
            return len(self._open().native)
        order, size = self._sampler_order, self.batch_size
        n = len(order.sampler if self._start else order)
        return n // size if self.drop_last else -(-n // size)

    def __iter__(self) -> Iterator[Any]:
        if self._begun:  # left in the middle
            self._next_epoch()
        o = self._open()
        if self._sampler_order is not None:
            plan = self._sampler_order.begin()
            self._state = plan.epoch, plan.handed
            o.follow(plan)
            self._look_ahead(o)
        else:
            o.go_to(self._state)
        self._begun = True
        return _NativeIterator(self, o, self._state[0])

    def _handed(self, opened: _OpenLoader, place: tuple[int, int]) -> None:
        """The user is at this place."""
        self._state = place
        opened.gpus.sample()
        if self._sampler_order is not None:
            self._sampler_order.plan.handed = place[1]
            self._look_ahead(opened)

    def _look_ahead(self, opened: _OpenLoader) -> None:
        plan = self._sampler_order.ahead(self._state[1] + self._ring * self.batch_size)
        if plan is not None:
            opened.follow_more(plan)

    def _finished(self) -> None:
        """The user is at the end of an epoch."""
        self._add_row()
        if self._sampler_order is not None:
            self._sampler_order.plan.finished = True
        self._next_epoch()

    def _next_epoch(self) -> None:
        self._go_to(self._state[0] + 1, 0)

    def _go_to(self, epoch: int, position: int) -> None:
        if self._start:  # what was dealt again, for once
            self._sampler_order, self._start = None, 0
        self._state, self._begun = (epoch, position), False

    def _deal(self, epoch: int, start: int) -> None:
        """All ranks together have taken so many of this epoch, whatever their number was: what is
        left is dealt to those there are now. Where they cannot have stopped there themselves it is
        listed."""
        n, size = self._open().count, self.batch_size
        order = Shuffle(n, shuffle=self.shuffle, seed=self.seed, rank=self.rank, world=self.world,
                        drop_last=self.drop_last)
        left = order.length(start)
        if not self._rows and (left < size if self.drop_last else left == 0):
            self._go_to(epoch, order.length())
        elif start % self.world == 0:
            self._go_to(epoch, start // self.world)
        elif self._rows:
            raise ValueError(f"{start} rows were consumed, which {self.world} ranks cannot have "
                             "done: resume with a number of ranks that divides it")
        else:
            order.load_state_dict({"n": n, "seed": self.seed, "epoch": epoch, "start": start})
            self._go_to(epoch, 0)
            self._sampler_order = NativeOrder(order, self.seed, epoch + 1, epoch)
            self._start = start

    def _add_row(self) -> None:
        o, epoch, row = self._opened, self._state[0], None
        if self._sampler_order is not None and not self._rows:
            row = row_of(self._sampler_order.plan, self._sampler_order.sampler, o.count)
        elif not self._rows:
            n = -(-o.count // self.world)
            row = EpochRow(epoch, 0.0, 0.0, n, n, 1.0)
        s = o.native.stats()
        times = {"begin_s": self._epoch_began_s, "end_s": s["waited_s"] + s["step_s"]}
        self._epoch_began_s = times["end_s"]
        self._add_times(s["waited_s"], s["step_s"])
        if row is not None:
            self._epochs_seen.add(replace(row, **times), o.daemon_stats(), epoch)

    def _add_times(self, waited_s: float, stepped_s: float) -> None:
        """The library counts from when the loader was opened."""
        now = waited_s, stepped_s
        load_s, step_s = (n - b if n >= b else n for n, b in zip(now, self._clocked))
        self._clocked = now
        self._clock.add(load_s, 0.0, 0.0, step_s)
        self._clock.epoch_end()

    def learn(self, losses: Any) -> None:
        """The losses of the batch that was handed out last, one for each sample in it (a tensor on
        any device, an array or a list), for a sampler that learns: ImportanceSampler."""
        sampler = learner(None if self._sampler_order is None else self._sampler_order.sampler)
        if self._indices is None:
            raise RuntimeError("learn() before the first batch: call it with the losses of a batch "
                               "that the loader has handed out")
        learn(sampler, self._indices, losses)

    def _importance_sampler(self) -> ImportanceSampler | None:
        sampler = None if self._sampler_order is None else self._sampler_order.sampler
        return sampler if isinstance(sampler, ImportanceSampler) else None

    def _pack(self, data: Any, labels: Any, lengths: Any) -> Any:
        raise NotImplementedError

    @property
    def epoch(self) -> int:
        """The one that is being iterated, or comes next."""
        return self._state[0]

    def set_epoch(self, epoch: int) -> None:
        """Say which epoch the next iteration gives; without it they count on."""
        if epoch < 0:
            raise ValueError(f"epoch {epoch}: epochs count from 0")
        if self._sampler_order is not None and not self._start:
            self._sampler_order.set_epoch(epoch)
        if self._sampler_order is not None or (epoch, 0) != self._state:
            self._go_to(epoch, 0)

    # ---- state, report ----

    def state_dict(self) -> dict[str, Any]:
        """Where the iteration is, counted by what was handed out; the same on every rank."""
        state = {"samples": self._open().count, "snapshot": self._open().handle.snapshot,
                 "seed": self.seed, "epoch": self._state[0],
                 "start": self._start + self._state[1] * self.world}
        if self._sampler_order is None or self._start:
            return state
        return dict(state, sampler=self._sampler_order.state_dict())

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on there with the next iteration: exactly what would have come."""
        count, handle = self._open().count, self._open().handle
        if state.get("snapshot", handle.snapshot) != handle.snapshot:
            raise other_snapshot("the state", self.url, state["snapshot"], handle.snapshot)
        if state["samples"] != count:
            raise ValueError(f"the state is of {state['samples']} samples, and here are {count}: "
                             "it cannot be resumed with other data")
        sampled = self._sampler_order is not None and not self._start
        if sampled != ("sampler" in state):
            raise ValueError(f"the state is of a loader {'without' if sampled else 'with'} a "
                             "sampler: build it as it was built then")
        if state["seed"] != self.seed:
            self.seed = state["seed"]
            self.close()
        if sampled:
            self._sampler_order.load_state_dict(state["sampler"])
            self._go_to(state["epoch"], 0)
        else:
            self._deal(state["epoch"], state["start"])

    def report(self) -> LoaderReport:
        """What was measured since the loader was opened; of a closed one, until it was closed."""
        if self._opened is None and self._last is not None:
            return self._last
        native = self._open().native
        return LoaderReport(**native.stats(), bad_samples=native.bad(),
                            by_epoch=list(self._epochs_seen.rows), times=list(self._clock.rows),
                            gpus=self._opened.gpus.figures())


class _NativeIterator(Iterator):
    """One iteration. After an error it goes on: with what is left of the batch that raised it, or,
    after Ctrl-C, with the batch that was waited for."""

    def __init__(self, loader: _Loader, opened: _OpenLoader, epoch: int) -> None:
        self._loader: _Loader | None = loader
        self._opened: _OpenLoader | None = opened
        self._epoch = epoch

    def __next__(self) -> Any:
        loader, opened = self._loader, self._opened
        if loader is None or opened is None or loader._opened is not opened or not loader._begun \
                or loader._state[0] != self._epoch:
            self._loader = self._opened = None
            raise StopIteration  # another iteration has begun since
        got = opened.take()
        if got is None:
            loader._finished()
            self._loader = self._opened = None
            raise StopIteration
        place, indices, *rest = got
        loader._indices = indices
        loader._handed(opened, place)
        batch = loader._pack(*rest)
        batch.indices = indices
        return batch


class _OpenLoader:
    """The open parts of a loader: its handle, the ring and the threads. Refers to the loader only
    while it is made, so that dropping the loader ends all."""

    def __init__(self, loader: _Loader) -> None:
        self.pid = os.getpid()
        self.gpus = GpuMonitor()
        self.batch_size = loader.batch_size
        self.output = loader.output
        self.dtype = getattr(torch, loader._dtype)
        self.handle = open_agreed(loader.url, **loader._options)
        loader._options = self.handle.again()  # numbers mean the same when it is opened again
        at = loader._range(self.handle)
        self.count = len(at)
        if self.count == 0:
            raise ValueError(f"{loader.url} has no samples" +
                             (f" in split {loader.split!r}" if loader.split else ""))
        importance = loader._importance_sampler()
        if importance is not None:
            if loader._rows:
                raise ValueError("ImportanceSampler with rows=True: weights are of samples, which "
                                 "are whole tables here")
            importance.check((self.handle, at))
            importance.join(self.handle)
            importance.watch(_BucketWaits(self))
        self.first = 0 if loader._rows else at.start  # what the library calls sample 0
        self.range = None if loader._rows else self.count
        self.plan: BatchPlan | None = None  # the last one whose list was given
        auto = loader.threads == "auto"
        itemsize = torch.empty((), dtype=self.dtype).element_size()
        self.copies = self._new_copies(loader)
        common = (loader._kind, loader.batch_size, int(loader.drop_last), loader._bad,
                  0 if auto else int(loader.threads), 0, loader._ring, loader._decoded_cache)
        self.listed = loader._sampler_order is not None
        kind = _EXPLICIT if self.listed else int(loader.shuffle)
        order = (kind, loader.rank, loader.world, int(loader.drop_last),
                 loader.seed % _SEEDS, loader._epochs, at.start, len(at), *loader._state,
                 int(self.listed and loader._sampler_order.once))
        self.native: _dlcache.Loader = _dlcache.loader_open(
            self.handle, common, order, loader._own, loader._shape, _FORMATS[loader._dtype],
            itemsize, self.copies.buffers if self.copies is not None else None)
        self._ended = weakref.finalize(self, self.native.close)  # also when the process ends

    def _new_copies(self, loader: _Loader) -> DeviceCopies | None:
        if loader.device is None:
            return None
        loader._ring = max(loader._ring, DeviceCopies.DEPTH + 4)
        shape = (loader.batch_size, *loader._shape)
        return DeviceCopies(loader.device, shape, self.dtype, loader._ring, self.first,
                            loader._epochs)

    def daemon_stats(self) -> dict[str, Any] | None:
        try:
            return self.handle.daemon_stats()
        except (dlcache.Error, OSError, ValueError):
            return None  # a report says less then

    def close(self) -> None:
        if self.pid == os.getpid():
            self._ended()
            self._drop_copies()

    def _drop_copies(self) -> None:
        if self.copies is not None:
            self.copies.drop()

    def _is_at(self, place: tuple[int, int]) -> bool:
        if self.copies is not None and self.copies.ahead:
            return self.copies.place == place  # what is on its way counts as not taken
        return self.native.tell() == place

    def go_to(self, place: tuple[int, int]) -> None:
        if not self._is_at(place):
            self._drop_copies()
            self.native.seek(*place)

    def follow(self, plan: BatchPlan) -> None:
        """This plan comes now."""
        place = plan.epoch, plan.handed
        if plan is not self.plan or not self._is_at(place):
            self._drop_copies()
            self.native.follow(NativeOrder.numbers(plan, self.first, self.range), *place)
            self._given(plan)

    def follow_more(self, plan: BatchPlan) -> None:
        """And this one after it."""
        try:
            self.native.follow_more(NativeOrder.numbers(plan, self.first, self.range))
            self._given(plan)
        except (dlcache.Error, IndexError):
            pass  # it will be said when that epoch begins, if it does

    def _given(self, plan: BatchPlan) -> None:
        self.plan = plan
        if self.copies is not None:
            self.copies.last_epoch = plan.epoch

    def take(self) -> tuple | None:
        """(place, indices, data, labels, lengths), or None at the end of an epoch."""
        if self.copies is not None:
            return self.copies.take(self.native)
        batch = self.native.next()
        if batch is None:
            return None
        labels, lengths = small_of(batch)
        indices = indices_of(batch, self.first)
        if self.output == "dlpack":
            return batch.place, indices, batch, labels, lengths
        if self.output == "numpy":
            import numpy
            return (batch.place, indices.numpy(), numpy.asarray(batch), labels.numpy(),
                    None if lengths is None else lengths.numpy())
        data = torch.frombuffer(batch, dtype=self.dtype).view(batch.shape)
        return batch.place, indices, data, labels, lengths


class _BucketWaits:
    """For prefer="auto": seconds that training waited for the bucket, and all seconds. Of the time
    it waits for batches the bucket's is the share that threads have waited for bytes."""

    def __init__(self, opened: _OpenLoader) -> None:
        self._opened = weakref.ref(opened)

    def __call__(self) -> tuple[float, float]:
        opened = self._opened()
        try:
            s = opened.native.stats()
        except (AttributeError, ValueError):  # it was closed
            return 0.0, 0.0
        share = s["starved_s"] / max(s["busy_s"] + s["starved_s"], 1e-9)
        return s["waited_s"] * min(share, 1.0), s["waited_s"] + s["step_s"]


class ImageLoader(_Loader):
    """Batches of images: (images, labels).

    Args:
        source: A URL, or a dlcache.Dataset, which is opened once more.
        batch_size: Samples of a batch. May be set again between epochs.
        transforms: What happens to an image: dlcache.torch.transforms, or torchvision's objects.
        dtype: uint8 (default, unless transforms convert), float32 or float16.
        channels_last: Memory in torch's channels_last format; the shape stays [n, 3, h, w].
        exact: No scaled decoding: the closest to torchvision.
        shuffle, seed, drop_last: The order: a new permutation for each epoch, from the seed.
        sampler: Decides the order instead: the numbers of this rank's samples, captured once for
            each epoch. A sample may come more than once.
        split: "train", "validation", "test", where the dataset says so.
        rank, world: Which part of how many; as torch.distributed says, by default.
        device: "cuda": batches are copied ahead, on a stream of their own.
        on_bad: "raise", "skip" or "replace" samples that cannot be decoded.
        threads: "auto" follows the training step; or a number.
        decoded_cache: Keep images decoded: "auto", True, False.
        output: "torch", "numpy" or "dlpack" (objects with __dlpack__).
        max_pixels: Larger images are bad samples.
        options: Of dlcache.open().
    """

    _kind = _IMAGES

    def __init__(self, source: str | dlcache.Dataset, batch_size: int, transforms: Any, *,
                 dtype: Any = None, channels_last: bool = False, exact: bool = False,
                 max_pixels: int = 0, **common: Any) -> None:
        s = settings_of(transforms)
        name = ("float32" if s.floats else "uint8") if dtype is None else _name_of(dtype)
        if name not in ("uint8", "float32", "float16"):
            raise ValueError(f"dtype={dtype}: uint8, float32 or float16")
        if s.normalise and name == "uint8":
            raise ValueError("Normalize gives floats: dtype is float32 or float16")
        self._channels_last = channels_last
        own = (s.width, s.height, s.crop, s.resize, s.scale, s.ratio, s.flip, *s.jitter,
               _DTYPES[name], int(channels_last), int(s.normalise), s.mean, s.std, int(exact),
               max_pixels)
        shape = (s.height, s.width, 3) if channels_last else (3, s.height, s.width)
        super().__init__(source, batch_size, own=own, shape=shape, dtype=name, **common)

    def _pack(self, data: Any, labels: Any, lengths: Any) -> ImageBatch:
        if self._channels_last and isinstance(data, torch.Tensor):
            data = data.permute(0, 3, 1, 2)
        return ImageBatch(data, labels)


class AudioLoader(_Loader):
    """Batches of sounds: (sounds, lengths, labels).

    Args:
        source, batch_size and what is not here: As ImageLoader.
        samples: Of the output: what is longer is cut, what is shorter is padded.
        rate: Resample to it; None: as it is.
        channels: How many; 1 with mono=True is their mean.
        random_start: Cut at a random place.
        mels: So many bands of a log-mel spectrogram; None: the samples themselves.
        fft, window, hop: Of the spectrogram, in samples.
        low, high: Hz.
    """

    _kind = _AUDIO

    def __init__(self, source: str | dlcache.Dataset, batch_size: int, samples: int, *,
                 rate: int | None = None, mono: bool = True, channels: int = 1,
                 random_start: bool = False, mels: int | None = None, fft: int = 512,
                 window: int = 400, hop: int = 160, low: float = 0.0, high: float = 0.0,
                 floor: float = 1e-10, max_frames: int = 0, **common: Any) -> None:
        channels = 1 if mono else channels
        own = (samples, rate or 0, int(mono), channels, int(random_start), mels or 0, fft, window,
               hop, low, high, floor, max_frames)
        shape: tuple[int, ...] = (channels, samples)
        if mels:
            shape = (channels, mels, _frames(samples, fft, hop))
        super().__init__(source, batch_size, own=own, shape=shape, dtype="float32", **common)

    def _pack(self, data: Any, labels: Any, lengths: Any) -> AudioBatch:
        return AudioBatch(data, lengths, labels)


def _frames(samples: int, fft: int, hop: int) -> int:
    """Of a spectrogram; as audio_frames() in src/loader/audio."""
    return 1 + max(samples - fft, 0) // hop


class TensorLoader(_Loader):
    """Batches of tensors: (tensors, labels). Each sample is an .npy file, or raw numbers.

    Args:
        source, batch_size and what is not here: As ImageLoader.
        shape: Of a sample.
        dtype: Of the output: uint8, int32, int64, float16 or float32.
        raw: Samples are nothing but numbers of this type; None: .npy files.
        rows: Samples are tables (also the partitions of large .npy files), and each row is a tensor
            of this shape. A shuffle is one over all rows: the tables should fit into memory.
    """

    _kind = _TENSORS

    def __init__(self, source: str | dlcache.Dataset, batch_size: int, shape: Sequence[int], *,
                 dtype: Any = "float32", raw: Any = None, rows: bool = False,
                 **common: Any) -> None:
        name = _name_of(dtype)
        if name not in _FORMATS:
            raise ValueError(f"dtype={dtype}: one of {', '.join(_FORMATS)}")
        own = (_DTYPES[name], int(raw is not None),
               _choice("raw", _name_of(raw), _DTYPES) if raw is not None else 0, int(rows))
        super().__init__(source, batch_size, own=own, shape=tuple(int(n) for n in shape),
                         dtype=name, rows=rows, **common)

    def _pack(self, data: Any, labels: Any, lengths: Any) -> TensorBatch:
        return TensorBatch(data, labels)
