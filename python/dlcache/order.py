# SPDX-License-Identifier: Apache-2.0
"""The sequence that Dataset.follow() walks, as numbers, without a dataset or a daemon.

(NUMBERS-1) Computed by the code that the daemon and Dataset.next() run: it cannot differ from what they do.
"""
from __future__ import annotations

import operator
from typing import Optional, SupportsIndex

from . import _dlcache

__all__ = ["order_list"]

SEED_MASK = 2**64 - 1  # seeds may be negative or long; the lowest 64 bits count


def natural(name: str, value: SupportsIndex, limit: int = 2**63) -> int:
    """An argument as a number that C can hold, or an error that names it."""
    number = operator.index(value)
    if not 0 <= number < limit:
        raise ValueError(f"{name} is {number}; it must be at least 0 and below {limit}")
    return number


def order_list(n: SupportsIndex, *, seed: SupportsIndex = 0, epoch: SupportsIndex = 0,
               rank: SupportsIndex = 0, world: SupportsIndex = 1, drop_last: bool = False,
               shuffle: bool = True, start: SupportsIndex = 0, stop: Optional[SupportsIndex] = None,
               first: SupportsIndex = 0) -> memoryview:
    """Positions [start, stop) of one rank's order of one epoch.

    Args:
        n (int): Samples in the dataset, or in the split.
        seed, epoch: Which permutation.
        rank, world: This process of so many. Ranks take turns in one global order.
        drop_last (bool): Leave out what does not divide by `world`; else it is padded.
        shuffle (bool): False: 0, 1, 2, ...
        start, stop: Which part of it. Default: all.
        first (int): The split's first sample; added to every number.

    Returns:
        A memoryview of uint64 (format "Q"): numpy.asarray() takes it without a copy.
    """
    end = 2**63 - 1 if stop is None else natural("stop", stop)
    numbers = _dlcache.order_numbers(
        natural("n", n), natural("first", first), operator.index(seed) & SEED_MASK,
        natural("epoch", epoch), natural("rank", rank, 2**32), natural("world", world, 2**32),
        drop_last, shuffle, natural("start", start), end)
    return memoryview(numbers).cast("Q")
