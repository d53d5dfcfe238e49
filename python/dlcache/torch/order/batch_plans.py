# SPDX-License-Identifier: Apache-2.0
"""Batch plans: the batches of one iteration, and which of them the user has received.

    ComputedPlan   of a Shuffle: nothing is listed. In a relaxed order, samples may be substituted
    CapturedPlan   the indices that a sampler or a batch sampler has returned
    StreamPlan     of a sampler without end: captured in parts

(PLAN-1) A plan does not change when its sampler does. In a relaxed order, OrderClient.deal() fixes
     the content of a batch when the batch goes to a worker; each index still comes once.
(PLAN-2) The seed of a batch depends on the loader's seed, the epoch and the batch's number in it.
"""

from __future__ import annotations

import copy
import itertools
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy

from dlcache.torch.order.sampler_capture import (PackedIndices, SamplerState, SeededRandom, pack,
                                                 pack_lists)
from dlcache.torch.order.samplers import Shuffle

__all__ = ["BatchPlan", "CapturedPlan", "ComputedPlan", "StreamPlan", "mix"]

_CHUNK = 1 << 16  # indices computed at a time
_PART = 256       # batches of an endless sampler that are captured at a time


def mix(*numbers: int) -> int:
    """A seed of 63 bits: a good hash of the numbers (splitmix64's finish after each)."""
    h = 0
    for n in numbers:
        h = (h + n + 0x9E3779B97F4A7C15) % 2**64
        h = (h ^ h >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        h = (h ^ h >> 27) * 0x94D049BB133111EB % 2**64
        h ^= h >> 31
    return h >> 1


class BatchPlan:
    """The batches of one iteration, numbered from 0, and which of them the user has.

    epoch: of the loader: how many iterations were begun before.
    start: samples of the global order that were consumed before this plan's first one.
    offset: batches that were handed out before this plan's batch 0 (resumed on other ranks).
    handed, out: batches below `handed`, and those in `out`, were handed to the user.
    """

    def __init__(self, epoch: int, seed: int, start: int = 0, offset: int = 0) -> None:
        self.epoch, self.start, self.offset = epoch, start, offset
        self.handed = 0
        self.out: set[int] = set()
        self.finished = False  # the user has seen the end
        self.held: SamplerState | None = None  # state of the sampler before it was captured
        self.own: Any = None               # and its own state, if it has one
        self.sampler_epochs: list[int] = []
        self._seed = seed

    def seed(self, b: int) -> int:
        """Under which batch b is made, whoever makes it."""
        return mix(self._seed, self.epoch, self.offset + b)

    def hand(self, b: int) -> None:
        self.out.add(b)
        while self.handed in self.out:
            self.out.remove(self.handed)
            self.handed += 1

    def part_at(self, b: int) -> tuple[BatchPlan, int]:
        """The plan that lists the indices of batch b, and the number of b in that plan."""
        return self, b

    def next_part(self, b: int) -> BatchPlan | None:
        """The plan after part_at(b), once half of that one is reached; else None."""
        return None

    def restart(self) -> None:
        """It is given to workers again."""

    def saved(self) -> list[list[int]]:
        return []

    def count(self) -> int | None:
        """Number of batches; None: not known."""
        raise NotImplementedError

    def has(self, b: int) -> bool:
        return b < self.count()

    def batch(self, b: int) -> Any:
        """The indices of batch b: a list, or what the sampler said where nothing is collated."""
        raise NotImplementedError

    def before(self, b: int) -> int:
        """Indices in the batches before b."""
        raise NotImplementedError

    def length(self) -> int:
        """Indices in all, also those that make no whole batch."""
        raise NotImplementedError

    def indices(self) -> numpy.ndarray | None:
        """All of them, for the daemon; None: they are not numbers."""
        raise NotImplementedError

    def numbers(self, n: int) -> numpy.ndarray | None:
        """All indices as numbers from 0 to n - 1, negative ones counted from the end; None: some
        are no numbers. IndexError: some are not in that range."""
        found = self.indices()
        if found is None or len(found) == 0:
            return found
        low, high = found.min(), found.max()
        if low < -n or high >= n:
            k = int((found < -n).argmax() if low < -n else (found >= n).argmax())
            raise IndexError(f"index {found[k]} at position {k} of the epoch: there are {n} "
                             "samples")
        return numpy.where(found < 0, found + n, found) if low < 0 else found

    def crc(self) -> int | None:
        """Of all indices; None: not known."""
        return None

    def distinct(self) -> int | None:
        """Different indices; None: not known."""
        return None


class _Cut:
    """How a sequence of so many indices is cut into batches. size None: one by one."""

    def __init__(self, length: int, size: int | None, drop_last: bool) -> None:
        self.length, self.size = length, size
        whole = length // (size or 1)
        self.count = whole if drop_last else -(-length // (size or 1))

    def before(self, b: int) -> int:
        return min(b * (self.size or 1), self.length)


class ComputedPlan(BatchPlan):
    """Of a Shuffle. The Shuffle may change after that; the plan does not."""

    def __init__(self, shuffle: Shuffle, shuffle_epoch: int, size: int | None, drop_last: bool,
                 **plan: Any) -> None:
        super().__init__(**plan)
        self.order = copy.copy(shuffle)
        self.order.source, self.order.epoch = shuffle.n, shuffle_epoch
        self.order._seed = shuffle.seed  # which may be drawn only now
        self.sampler_epochs = [shuffle_epoch]
        self._cut = _Cut(self.order.length(self.start), size, drop_last)
        self.swaps: dict[int, int] = {}  # of a state: what is at these positions instead
        self.fixed = 0                   # batches before it are not dealt: the state has them
        self.dealer: Any = None          # who deals it, decided with the first batch; False: nobody
        self.dealt: dict[int, list[int]] = {}  # by batch, those that are not all handed out, and
                                               # what was last; the one after the last batch is what
                                               # makes no whole one

    def same(self, other: BatchPlan | None) -> bool:
        def key(p: ComputedPlan) -> tuple:
            o = p.order
            return (p.start, p.epoch, p.offset, o.n, o.shuffle, o.seed, o.epoch, o.rank, o.world,
                    o.drop_last)
        return isinstance(other, ComputedPlan) and key(self) == key(other)

    def count(self) -> int:
        return self._cut.count

    def before(self, b: int) -> int:
        return self._cut.before(b)

    def batch(self, b: int) -> Any:
        part = self.dealt.get(b)
        if part is None:
            part = self._part(self.before(b), self.before(b + 1))
        return part[0] if self._cut.size is None else part

    def hand(self, b: int) -> None:
        """What was dealt of b stays until the next one is handed out: whoever learns of it asks."""
        for old in [b for b in self.dealt if b < self.handed]:
            del self.dealt[old]
        super().hand(b)

    def restart(self) -> None:
        """It is given to workers again. What was dealt of it ahead is dealt again."""
        if not self.handed and not self.out:
            self.dealt, self.dealer = {}, None

    def saved(self) -> list[list[int]]:
        """[position, index] of what is not where the order says, behind what was handed out."""
        first = self.before(self.handed)
        found = dict(self.swaps)
        if self.dealer:
            fixed = self.before(self.fixed)
            found = {at: index for at, index in self.swaps.items() if at < fixed}
            found.update(self.dealer.swaps(self))
        for b, part in self.dealt.items():
            found.update(enumerate(part, self.before(b)))
        return sorted([at, index] for at, index in found.items() if at >= first)

    def _part(self, first: int, last: int) -> list[int]:
        part = self.order.part(self.order.epoch, first, last, self.start)
        if self.swaps:
            part = [self.swaps.get(first + k, index) for k, index in enumerate(part)]
        return part

    def length(self) -> int:
        return self._cut.length

    def distinct(self) -> int:
        return min(self._cut.length, self.order.n)

    def indices(self) -> numpy.ndarray:
        length = self._cut.length
        found = numpy.empty(length, numpy.int64)
        for a in range(0, length, _CHUNK):
            b = min(a + _CHUNK, length)
            found[a:b] = self._part(a, b)
        return found


class CapturedPlan(BatchPlan):
    """Indices that a sampler has said, cut into batches, or batches that a batch sampler has."""

    def __init__(self, items: Sequence, size: int | None, drop_last: bool,
                 ends: list[int] | None = None, **plan: Any) -> None:
        super().__init__(**plan)
        self._items, self._ends = items, ends
        self._cut = _Cut(len(items), size, drop_last)

    def count(self) -> int:
        return len(self._ends) - 1 if self._ends is not None else self._cut.count

    def before(self, b: int) -> int:
        if self._ends is not None:
            return self._ends[min(b, len(self._ends) - 1)]
        return self._cut.before(b)

    def batch(self, b: int) -> Any:
        if self._ends is None and self._cut.size is None:
            return self._items[b]
        return self._items[self.before(b):self.before(b + 1)]

    def length(self) -> int:
        return len(self._items)

    def indices(self) -> numpy.ndarray | None:
        return self._items.array if isinstance(self._items, PackedIndices) else None

    def distinct(self) -> int | None:
        found = self.indices()
        if found is None or len(found) == 0:
            return None if found is None else 0
        low = int(found.min())
        if int(found.max()) - low > 1000 * len(found):  # keys of something, it seems
            return len(numpy.unique(found))
        seen = numpy.zeros(int(found.max()) - low + 1, bool)
        seen[found - low] = True
        return int(seen.sum())

    def crc(self) -> int | None:
        return self._items.crc() if isinstance(self._items, PackedIndices) else None


class _Part(NamedTuple):
    """Batches [begin, end) of a stream; `samples` indices are in those before."""

    begin: int
    end: int
    samples: int
    plan: CapturedPlan


class StreamPlan(BatchPlan):
    """Of a sampler that does not end, or not yet. It is captured in parts, as batches are asked for
    in sequence; a part is dropped once the user has all of it."""

    def __init__(self, batches: Iterator, lists: bool, seeded: SeededRandom,
                 **plan: Any) -> None:
        super().__init__(**plan)
        self._rest, self._lists, self._seeded = batches, lists, seeded
        self._parts: deque[_Part] = deque()
        self._end = self._samples = 0  # batches and indices captured

    def count(self) -> None:
        return None

    def has(self, b: int) -> bool:
        while b >= self._end and self._capture_part():
            pass
        return b < self._end

    def _capture_part(self) -> bool:
        with self._seeded:
            some = list(itertools.islice(self._rest, _PART))
        if not some and self._parts:
            return False
        while self._parts and self.handed >= self._parts[0].end:
            self._parts.popleft()
        items, ends = pack_lists(some) if self._lists else (pack(some), None)
        plan = CapturedPlan(items, None, False, ends, epoch=self.epoch, seed=self._seed)
        self._parts.append(_Part(self._end, self._end + len(some), self._samples, plan))
        self._end += len(some)
        self._samples += plan.length()
        return bool(some)

    def _part(self, b: int) -> _Part:
        """The one that has batch b, or after the end the last one."""
        self.has(b)
        return next((p for p in self._parts if b < p.end), self._parts[-1])

    def part_at(self, b: int) -> tuple[BatchPlan, int]:
        part = self._part(b)
        part.plan.handed = max(0, self.handed - part.begin)
        return part.plan, b - part.begin

    def next_part(self, b: int) -> BatchPlan | None:
        part = self._part(b)
        return self._part(part.end).plan if 2 * (b - part.begin) >= part.end - part.begin else None

    def batch(self, b: int) -> Any:
        part = self._part(b)
        return part.plan.batch(b - part.begin)

    def before(self, b: int) -> int:
        part = self._part(b)
        return part.samples + part.plan.before(b - part.begin)

    def length(self) -> int:
        return 0

    def indices(self) -> None:
        return None
