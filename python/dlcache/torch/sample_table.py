# SPDX-License-Identifier: Apache-2.0
"""SampleTable: what the catalog knows of samples before any is read, as lazy columns."""
from __future__ import annotations

import collections.abc
from typing import Any, Callable, Sequence

import dlcache
from dlcache.torch.sources import position_of

__all__ = ["LazySequence", "SampleTable"]


class LazySequence(collections.abc.Sequence):
    """A sequence whose elements are made when asked for; slices are lists."""

    def __init__(self, length: int, get: Callable[[int], Any]):
        self._length, self._get = length, get

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index):
        if isinstance(index, slice):
            return [self._get(i) for i in range(*index.indices(self._length))]
        return self._get(position_of(index, self._length))

    def __eq__(self, other) -> bool:
        if not isinstance(other, collections.abc.Sequence) or isinstance(other, str):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        shown = ", ".join(map(repr, self[:3]))
        return "[%s%s] (%d)" % (shown, ", ..." if len(self) > 3 else "", len(self))


class SampleTable(collections.abc.Mapping):
    """What is known of the samples before any is read: column to lazy sequence, one element each.

    The columns of the manifest are texts. "key" is always there; "label", the class's number, where
    samples have one (-1: this one has none).
    """

    def __init__(self, handle: dlcache.Dataset, numbers: Sequence[int]):
        self._handle, self._numbers, self._labels = handle, numbers, handle.labels
        known = ["key"] + (["label"] if self._labels is not None else [])
        self._names = known + [name for name in handle.columns if name not in known]

    def __getitem__(self, name: str) -> LazySequence:
        if name not in self._names:
            raise KeyError("there is no column %r; there are %s" % (name, ", ".join(self._names)))
        return LazySequence(len(self._numbers), lambda i: self._cell(name, self._numbers[i]))

    def _cell(self, name: str, number: int) -> Any:
        if name == "key":
            return self._handle.key(number)
        if name == "label" and self._labels is not None:
            return self._labels[number]
        return self._handle.column(name, number)

    def __iter__(self):
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)
