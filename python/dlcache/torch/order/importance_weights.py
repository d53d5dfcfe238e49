# SPDX-License-Identifier: Apache-2.0
"""ImportanceWeights: the importance weights of a dataset, through a handle of the sampler.

An *index* counts the items of a torch dataset, a *number* the samples of the dlcache.Dataset behind
it. Weights are stored by number; callers use indices. Losses on a GPU are copied while training
goes on, and learnt at the next call that needs them.

(WEIGHTS-1) numbers_of() is the only place that turns an index into a number, draw() the only one
     that turns a number into an index.
(WEIGHTS-2) Losses are learnt in the order of arrival, and before anything is drawn or returned.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy
import torch

import dlcache

__all__ = ["DrawSpec", "ImportanceFigures", "ImportanceWeights", "flat"]

MODES = {"coverage": 0, "shade": 1}
RULES = {"rank": 0, "plain": 1}


class DrawSpec(NamedTuple):
    """How epochs are drawn: the settings that do not change between epochs."""

    mode: str
    rule: str
    rank: int
    world: int
    seed: int
    length: int  # positions of an epoch over all ranks
    every: int
    job: str | None


@dataclasses.dataclass
class ImportanceFigures:
    """What this rank drew for an epoch, and what it learnt in it."""

    epoch: int
    positions: int    #: samples to be read
    part: int         #: samples that this rank could draw from
    distinct: int     #: different ones among those drawn
    forced: int       #: drawn because they were due ("coverage")
    resident: int     #: positions whose sample was in memory when it was drawn
    effective: float  #: how many samples of equal weight would be drawn as widely
    replication: float
    prefer: float
    used: int = 0     #: losses learnt
    ignored: int = 0  #: losses that were not finite numbers
    loss: float = 0.0  #: mean of those learnt

    @property
    def coverage(self) -> float:
        """Share of the samples that the epoch sees."""
        return self.distinct / self.part if self.part else 0.0

    @property
    def resident_share(self) -> float:
        return self.resident / self.positions if self.positions else 0.0

    def learnt(self, used: int, ignored: int, mean: float) -> None:
        self.ignored += ignored
        if used > 0:
            self.loss += (mean - self.loss) * used / (self.used + used)
            self.used += used

    def as_dict(self) -> dict[str, Any]:
        return {**dataclasses.asdict(self), "coverage": self.coverage,
                "resident_share": self.resident_share}


def flat(losses: Any) -> torch.Tensor:
    """One number for each sample, float32, wherever they are."""
    try:
        found = torch.as_tensor(losses).detach()
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(f"losses are a tensor, an array or a list with one number for each sample: "
                        f"{error}") from None
    if found.is_complex():
        raise TypeError("losses are complex numbers: give real ones, such as their abs()")
    return found.reshape(-1).to(torch.float32)


def _array_of(numbers: Sequence[int]) -> numpy.ndarray:
    if isinstance(numbers, range):
        return numpy.arange(numbers.start, numbers.stop, numbers.step)
    return numpy.asarray(numbers)


class _PendingLosses(NamedTuple):
    """Losses that leave a GPU."""

    epoch: int
    numbers: numpy.ndarray
    losses: torch.Tensor  # page-locked
    arrived: Any

    @classmethod
    def start(cls, epoch: int, numbers: numpy.ndarray, losses: torch.Tensor) -> _PendingLosses:
        host = torch.empty(len(losses), dtype=torch.float32, pin_memory=True)
        host.copy_(losses, non_blocking=True)
        arrived = torch.cuda.Event()
        arrived.record(torch.cuda.current_stream(losses.device))
        return cls(epoch, numbers, host, arrived)


class ImportanceWeights:
    """Draws and learns.

    Args:
        source: As source_of() says: a handle, of which only URL and options are used, and the
            number of each index; None: they are the same.
        spec: How it draws.
    """

    def __init__(self, source: tuple[dlcache.Dataset, Sequence[int] | None],
                 spec: DrawSpec) -> None:
        self.url, self._options = source[0].url, source[0].again()
        self._numbers: Any = range(len(source[0])) if source[1] is None else source[1]
        if not (isinstance(self._numbers, range) and self._numbers.step == 1):
            self._numbers = numpy.asarray(self._numbers, dtype=numpy.int64)
        self.spec = spec
        self.figures: dict[int, ImportanceFigures] = {}
        self._handle: dlcache.Dataset | None = None
        self._told: tuple | None = None
        self._pending: _PendingLosses | None = None

    @property
    def n(self) -> int:
        return len(self._numbers)

    @property
    def snapshot(self) -> str:
        """Of the dataset whose samples are weighed."""
        return str(self._options["snapshot"])

    def differs(self, url: str, snapshot: str, numbers: Sequence[int]) -> str | None:
        """In words, what makes other samples of these than ours, index by index; None: nothing."""
        if len(numbers) != self.n:
            return f"the sampler is of {self.n} samples and {url} has {len(numbers)} to load"
        if url.rstrip("/") != self.url.rstrip("/"):
            return f"the sampler is of {self.url}, and {url} is loaded"
        if snapshot != self.snapshot:
            return (f"the sampler is of snapshot {self.snapshot} of {url}, and snapshot {snapshot} is "
                    "loaded, because the bucket was listed again in between")
        if not numpy.array_equal(_array_of(numbers), _array_of(self._numbers)):
            return (f"the sampler is of other samples of {url} than those that are loaded: another "
                    "split or subset, or in another order")
        return None

    # Where

    def join(self, handle: dlcache.Dataset, replication: float = 1.0, prefer: float = 1.0) -> None:
        """Who reads through this handle goes by these weights: the daemon keeps what is heavy."""
        s, listed = self.spec, not isinstance(self._numbers, range)
        handle.importance(MODES[s.mode], RULES[s.rule], s.rank, s.world, s.seed,
                          0 if listed else self._numbers.start, 0 if listed else self.n, s.length,
                          s.every, replication, prefer, s.job, self._numbers if listed else None)

    def _open(self, replication: float = 1.0, prefer: float = 1.0) -> dlcache.Dataset:
        if self._handle is None:
            self._handle = dlcache.open(self.url, **self._options)
            self._told = None
        wanted = replication, prefer, self.spec, os.getpid()
        if self._told != wanted:  # a child of fork() begins itself
            self.join(self._handle, replication, prefer)
            self._told = wanted
        return self._handle

    def copy(self) -> ImportanceWeights:
        """For another process: it opens again."""
        self.settle()
        made = ImportanceWeights.__new__(ImportanceWeights)
        vars(made).update(vars(self), _handle=None, _told=None, figures=dict(self.figures))
        return made

    def numbers_of(self, indices: Any) -> numpy.ndarray:
        """Of the samples with these indices, negative ones counted from the end."""
        if isinstance(indices, torch.Tensor):
            indices = indices.detach().cpu().numpy()
        found = numpy.asarray(indices).reshape(-1)
        if found.size == 0:
            return numpy.empty(0, numpy.int64)
        if found.dtype.kind not in "iu":
            raise TypeError(f"indices are integers, not {found.dtype}")
        low, high = int(found.min()), int(found.max())
        if low < -self.n or high >= self.n:
            wrong = low if low < -self.n else high
            raise IndexError(f"index {wrong} is out of range for {self.n} samples")
        found = found.astype(numpy.int64)
        found[found < 0] += self.n
        if isinstance(self._numbers, range):
            return found + self._numbers.start
        return self._numbers[found]

    # Drawing

    def draw(self, epoch: int, replication: float, prefer: float) -> numpy.ndarray:
        """Indices of this rank's epoch."""
        self.settle()
        drawn, said = self._open(replication, prefer).draw(epoch)
        found = numpy.frombuffer(drawn, dtype=numpy.uint64).astype(numpy.int64)
        if isinstance(self._numbers, range):
            found -= self._numbers.start
        self.figures[epoch] = ImportanceFigures(epoch, len(found), said["part"], said["distinct"],
                                                said["forced"], said["resident"], said["effective"],
                                                replication, prefer)
        return found

    # Learning

    def learn(self, epoch: int, indices: Any, losses: torch.Tensor) -> None:
        """losses: of flat()."""
        self.settle()
        numbers = self.numbers_of(indices)
        if len(numbers) != len(losses):
            raise ValueError(f"{len(losses)} losses for {len(numbers)} indices: give one for each")
        if losses.is_cuda:
            self._pending = _PendingLosses.start(epoch, numbers, losses)
        else:
            self._learn(epoch, numbers, losses.cpu())

    def settle(self) -> None:
        """Learn what was on its way."""
        pending, self._pending = self._pending, None
        if pending is not None:
            pending.arrived.synchronize()
            self._learn(pending.epoch, pending.numbers, pending.losses)

    def _learn(self, epoch: int, numbers: numpy.ndarray, losses: torch.Tensor) -> None:
        if len(numbers) == 0:
            return
        learnt = self._any().learn(epoch, numbers, losses.contiguous().numpy())
        if epoch in self.figures:
            self.figures[epoch].learnt(*learnt)

    # Weights as they are

    def values(self) -> torch.Tensor:
        self.settle()
        first, count = self._span()
        found = numpy.frombuffer(bytearray(self._any().weights(first, count)), numpy.float32)
        if not isinstance(self._numbers, range):
            found = found[self._numbers - first]
        return torch.from_numpy(found)

    def set_values(self, values: torch.Tensor) -> None:
        self.settle()
        values = flat(values).cpu()
        if len(values) != self.n:
            raise ValueError(f"{len(values)} weights for {self.n} samples: give one for each, 0 "
                             "where nothing was learnt")
        new = values.contiguous().numpy()
        first, count = self._span()
        if not isinstance(self._numbers, range):
            all_of_them = numpy.frombuffer(bytearray(self._any().weights(first, count)),
                                           numpy.float32)
            all_of_them[self._numbers - first] = new
            new = all_of_them
        self._any().set_weights(first, new)

    def scale(self) -> list:
        """What the rule remembers of the losses so far; to save with the weights."""
        self.settle()
        return list(self._any().scale())

    def set_scale(self, scale: Sequence) -> None:
        self._any().set_scale(*scale)

    def _any(self) -> dlcache.Dataset:
        """The handle, whatever replication it was told last."""
        return self._open(*self._told[:2]) if self._told is not None else self._open()

    def _span(self) -> tuple[int, int]:
        """(first, count) of the numbers there are."""
        if isinstance(self._numbers, range):
            return self._numbers.start, self.n
        first = int(self._numbers.min())
        return first, int(self._numbers.max()) - first + 1
