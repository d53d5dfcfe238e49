# SPDX-License-Identifier: Apache-2.0
"""Shuffle: dlcache's own order as a sampler.

The order of an epoch is a keyed permutation, computed where it is needed: nothing is drawn, kept or
listed, and the daemon computes the same from the seed. Ranks take interleaved positions of one
global order, so the sequence of global batches is the same on any number of ranks; what does not
divide by their number is padded from the start of the order, or dropped, as DistributedSampler
does it.

An epoch can be resumed on another number of ranks: `start` samples of its global order were
consumed, and the rest is divided among the ranks again:

    global order    a b c d e f g      3 ranks took a b c; then 2 ranks: rank 0 d f, rank 1 e g

(SHUFFLE-1) With the same number of ranks, what is left is exactly what would have come.
"""

from __future__ import annotations

from collections.abc import Iterator, Sized
from typing import Any

import torch
import torch.distributed
from torch.utils.data import RandomSampler, Sampler, SequentialSampler

import dlcache
from dlcache.errors import other_snapshot

__all__ = ["Shuffle"]

_CHUNK = 1 << 14  # numbers that iter() computes at a time


def distributed() -> tuple[int, int]:
    """(rank, world) of torch.distributed; (0, 1) when it is not in use."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank(), torch.distributed.get_world_size()
    return 0, 1


def draw_seed(generator: torch.Generator | None) -> int:
    """A seed as torch's loader draws it: from the generator, or from torch's default one."""
    return int(torch.empty((), dtype=torch.int64).random_(generator=generator).item())


class EpochSampler(Sampler):
    """A sampler with epochs. `epoch` is the one that the next iteration gives. It counts by itself;
    once set_epoch() was called, only that changes it."""

    epoch = 0
    _counts = True  # until set_epoch() is called
    _start = 0      # of the next epoch: samples of the global order that were consumed

    @property
    def counts(self) -> bool:
        """The epoch counts by itself."""
        return self._counts

    def set_epoch(self, epoch: int) -> None:
        """Say which epoch the next iteration gives, and every one until this is called again."""
        if epoch < 0:
            raise ValueError(f"epoch {epoch}: epochs count from 0")
        if epoch != self.epoch:
            self._start = 0
        self.epoch = epoch
        self._counts = False

    def begin(self) -> tuple[int, int]:
        """An iteration begins; returns its epoch, and how much of the global order is consumed."""
        found = self.epoch, self._start
        self._start = 0
        if self._counts:
            self.epoch += 1
        return found


class Shuffle(EpochSampler):
    """Indices 0 to n - 1, each once per epoch, over all ranks.

    Args:
        source: The number of samples n, or anything with a length, asked at each epoch.
        shuffle: A new permutation in each epoch; else 0, 1, 2, ...
        seed: The same on all ranks. None: drawn at first use from `generator`, or from torch's
            default one.
        rank, world: Which part of how many. None: as torch.distributed says where it is
            initialised, else 0 of 1.
        drop_last: Leave out what does not divide by world; else it is padded.
    """

    def __init__(self, source: int | Sized, *, shuffle: bool = True, seed: int | None = 0,
                 rank: int | None = None, world: int | None = None, drop_last: bool = False,
                 generator: torch.Generator | None = None) -> None:
        found = distributed() if rank is None or world is None else (0, 1)
        self.rank = found[0] if rank is None else rank
        self.world = found[1] if world is None else world
        if not 0 <= self.rank < self.world:
            raise ValueError(f"rank {self.rank} of world {self.world}: ranks count from 0 to "
                             "world - 1")
        if isinstance(source, int) and source < 0:
            raise ValueError(f"a shuffle of {source} samples: give a number from 0 on")
        self.source = source
        self.shuffle = shuffle
        self.drop_last = drop_last
        self._seed = seed
        self._generator = generator

    @property
    def n(self) -> int:
        return self.source if isinstance(self.source, int) else len(self.source)

    @property
    def seed(self) -> int:
        if self._seed is None:
            self._seed = draw_seed(self._generator)
        return self._seed

    def length(self, start: int = 0) -> int:
        """Positions of this rank in what is left behind `start` samples of the global order."""
        left = max(self.n - start, 0)
        return left // self.world if self.drop_last else -(-left // self.world)

    def part(self, epoch: int, first: int, last: int, start: int = 0) -> list[int]:
        """Positions [first, last) of this rank, last <= length(start)."""
        n, world = self.n, self.world
        turn, rank = divmod(start + self.rank, world)  # our position k is turn + k of this rank
        padded = -(-n // world)
        found = self._computed(epoch, rank, world, turn + first, min(turn + last, padded))
        for k in range(max(turn + first, padded), turn + last):
            found += self._computed(epoch, 0, 1, (rank + k * world) % n, (rank + k * world) % n + 1)
        return found

    def _computed(self, epoch: int, rank: int, world: int, first: int, last: int) -> list[int]:
        if first >= last:
            return []
        return memoryview(dlcache.order_list(
            self.n, seed=self.seed % 2**64, epoch=epoch, rank=rank, world=world,
            shuffle=self.shuffle, start=first, stop=last)).tolist()

    def __len__(self) -> int:
        """Of a whole epoch, also when the next one is resumed."""
        return self.length()

    def __iter__(self) -> Iterator[int]:
        epoch, start = self.begin()
        return self._numbers(epoch, start, self.length(start))

    def _numbers(self, epoch: int, start: int, length: int) -> Iterator[int]:
        for first in range(0, length, _CHUNK):
            yield from self.part(epoch, first, min(first + _CHUNK, length), start)

    def state_dict(self) -> dict[str, Any]:
        """Of the next iteration; the same on every rank. dlcache.torch.DataLoader keeps count in
        mid-epoch; with another loader, set "start" to the samples that all ranks took together."""
        state = {"n": self.n, "seed": self.seed, "epoch": self.epoch, "start": self._start}
        snapshot = getattr(self.source, "snapshot", None)
        return state if snapshot is None else dict(state, snapshot=snapshot)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """A state from any number of ranks; raises ValueError when it is of other data."""
        ours = getattr(self.source, "snapshot", None)
        if None not in (ours, state.get("snapshot")) and state["snapshot"] != ours:
            raise other_snapshot("the state", getattr(self.source, "url", "the dataset"),
                                 state["snapshot"], ours)
        if state["n"] != self.n:
            raise ValueError(f"the state is of {state['n']} samples, and here are {self.n}: it "
                             "cannot be resumed with other data")
        self._seed, self.epoch, self._start = state["seed"], state["epoch"], state["start"]


class ShuffleRandomSampler(Shuffle, RandomSampler):
    """The loader's sampler for shuffle=True.

    Who deals a loader to ranks (Lightning, Accelerate) replaces torch's own samplers by one for
    several ranks and wraps all others, so that each rank would draw a seed of its own. So it must
    be seen to be one of torch's.
    """

    def __init__(self, source: Sized, generator: torch.Generator | None) -> None:
        Shuffle.__init__(self, source, seed=None, rank=0, world=1, generator=generator)
        self.data_source, self.generator = source, generator
        self.replacement, self._num_samples = False, None


class ShuffleSequentialSampler(Shuffle, SequentialSampler):
    """The loader's sampler for shuffle=False; see ShuffleRandomSampler."""

    def __init__(self, source: Sized, generator: torch.Generator | None) -> None:
        Shuffle.__init__(self, source, shuffle=False, seed=None, rank=0, world=1,
                         generator=generator)
        self.data_source = source
