# SPDX-License-Identifier: Apache-2.0
"""Captures what a sampler returns ahead of time, and restores the sampler's state.

    pack()        all items of an iterable; plain integers take eight bytes each
    SeededRandom  context in which torch, Python and numpy draw random numbers from a given seed
    SamplerState  the state of a sampler: restored after a capture, compared before it is used

(CAPTURE-1) After SamplerState(x).restore() x is as it was: attributes, lists, tensors and
     generators, in place.
(CAPTURE-2) Two equal states of a sampler mean that it would return the same, unless `hidden` or
     `moving` says that it holds objects which cannot be compared.
"""

from __future__ import annotations

import collections
import collections.abc
import enum
import itertools
import random
import types
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy
import torch
from torch.utils.data import Dataset, Sampler

__all__ = ["PackedIndices", "SamplerState", "SeededRandom", "pack", "pack_lists"]

_CHUNK = 1 << 14


class PackedIndices(Sequence):
    """A packed sequence of integers; items have the type that was put in."""

    def __init__(self, kind: type, packed: bytearray) -> None:
        self._kind = kind
        self.array = numpy.frombuffer(packed, dtype=numpy.int64 if kind is int else kind)

    def __len__(self) -> int:
        return len(self.array)

    def __getitem__(self, at: Any) -> Any:
        found = self.array[at]
        if isinstance(at, slice):
            return found.tolist() if self._kind is int else list(found)
        return int(found) if self._kind is int else found

    def crc(self) -> int:
        return zlib.crc32(self.array)


def _kind_of(items: list) -> type | None:
    """The one type of integer that all items are of."""
    kinds = set(map(type, items))
    kind = kinds.pop() if len(kinds) == 1 else None
    return kind if kind is int or kind and issubclass(kind, numpy.integer) else None


def _packed(kind: type, items: list) -> bytes | None:
    try:
        return numpy.array(items, dtype=numpy.int64 if kind is int else kind).tobytes()
    except OverflowError:
        return None


def pack(items: Iterable) -> Sequence:
    """All items, in a Numbers if they are integers of one type, else in a list."""
    rest = iter(items)
    packed, kind = bytearray(), None
    for chunk in iter(lambda: list(itertools.islice(rest, _CHUNK)), []):
        kind = kind or _kind_of(chunk)
        new = _packed(kind, chunk) if kind and kind is _kind_of(chunk) else None
        if new is None:
            before = PackedIndices(kind, packed)[:] if kind else []
            return before + chunk + list(rest)
        packed += new
    return PackedIndices(kind or int, packed)


def pack_lists(batches: Iterable) -> tuple[Sequence, list[int] | None]:
    """All items of all batches, and where each batch ends in them; or, when a batch is not a plain
    list, the batches as they are, and None."""
    ends = [0]
    kept: list[Any] = []

    def flat() -> Iterator:
        for batch in rest:
            if type(batch) is not list:
                kept.append(batch)
                return
            ends.append(ends[-1] + len(batch))
            yield from batch

    rest = iter(batches)
    items = pack(flat())
    if not kept:
        return items, ends
    return [items[a:b] for a, b in itertools.pairwise(ends)] + kept + list(rest), None


class SeededRandom:
    """Context in which torch (CPU), random and numpy.random draw from a seed. Entered again, they
    continue where they stopped. Outside, the generators are as they were."""

    def __init__(self, seed: int) -> None:
        self._seed: int | None = seed
        self._inner: tuple | None = None

    @staticmethod
    def _state() -> tuple:
        return torch.get_rng_state(), random.getstate(), numpy.random.get_state()

    @staticmethod
    def _set(state: tuple) -> None:
        torch.set_rng_state(state[0])
        random.setstate(state[1])
        numpy.random.set_state(state[2])

    def __enter__(self) -> SeededRandom:
        self._outer = self._state()
        if self._inner is not None:
            self._set(self._inner)
        else:
            torch.default_generator.manual_seed(self._seed)
            random.seed(self._seed)
            numpy.random.seed(self._seed % 2**32)
        return self

    def __exit__(self, *_: object) -> None:
        self._inner = self._state()
        self._set(self._outer)


_PLAIN = (type(None), bool, int, float, complex, str, bytes, range, enum.Enum, numpy.generic, type,
          torch.dtype, torch.device, torch.Size, types.FunctionType, types.BuiltinFunctionType,
          types.ModuleType)
_DATA = {"dataset", "data_source"}  # attributes of samplers that name what is sampled


def _generator_state(g: Any) -> Any:
    """The state of a random generator as plain Python; None: x is not one."""
    if isinstance(g, torch.Generator):
        return g.get_state().numpy().tobytes().hex()
    if isinstance(g, random.Random):
        version, words, gauss = g.getstate()
        return [version, list(words), gauss]
    if isinstance(g, numpy.random.RandomState):
        name, words, at, has_gauss, gauss = g.get_state()
        return [name, words.tolist(), at, has_gauss, gauss]
    if isinstance(g, numpy.random.Generator):
        return _unnumbered(g.bit_generator.state)
    return None


def _unnumbered(value: Any) -> Any:
    """numpy's bit generators say their states with arrays here and there."""
    if isinstance(value, dict):
        return {k: _unnumbered(v) for k, v in value.items()}
    return value.tolist() if isinstance(value, (numpy.ndarray, numpy.generic)) else value


def _set_generator(g: Any, state: Any) -> None:
    if isinstance(g, torch.Generator):
        g.set_state(torch.frombuffer(bytearray.fromhex(state), dtype=torch.uint8))
    elif isinstance(g, random.Random):
        g.setstate((state[0], tuple(state[1]), state[2]))
    elif isinstance(g, numpy.random.RandomState):
        g.set_state(tuple(state))
    else:
        g.bit_generator.state = state


class _Cell:
    """One mutable thing and its contents; what is mutable in them has cells of its own."""

    def __init__(self, thing: Any, contents: Any, how: str) -> None:
        self.thing, self.contents, self.how = thing, contents, how

    def restore(self) -> None:
        thing, contents = self.thing, self.contents
        if self.how == "generator":
            _set_generator(thing, contents)
        elif self.how == "array":
            if not _equal(thing, contents):  # it may be read-only
                thing[...] = contents
        elif self.how == "object":
            thing.__dict__.clear()
            thing.__dict__.update(contents)
        else:
            thing.clear()
            (thing.extend if self.how == "list" else thing.update)(contents)

    def same(self, other: _Cell) -> bool:
        if self.thing is not other.thing:
            return False
        a, b = self.contents, other.contents
        if self.how == "array":
            return _equal(a, b)
        if self.how in ("generator", "set"):
            return a == b
        if self.how == "list":
            return len(a) == len(b) and all(map(_alike, a, b))
        return a.keys() == b.keys() and all(_alike(v, b[k]) for k, v in a.items())


def _equal(a: Any, b: Any) -> bool:
    return a.shape == b.shape and bool((a == b).all())


def _alike(a: Any, b: Any) -> bool:
    if a is b:
        return True
    if isinstance(a, tuple):
        return isinstance(b, tuple) and len(a) == len(b) and all(map(_alike, a, b))
    return type(a) is type(b) and isinstance(a, _PLAIN) and a == b


class SamplerState:
    """The state of a sampler and of the samplers inside it, at this moment.

    hidden: it holds objects whose state we do not know. moving: it holds iterators, or is one.
    """

    def __init__(self, sampler: Any, dataset: Any = None) -> None:
        self.hidden = self.moving = False
        self._dataset = dataset
        self._cells: list[_Cell] = []
        self._seen: set[int] = set()
        self._visit(sampler, inner=True)
        self._dataset = None

    def restore(self) -> None:
        for cell in self._cells:
            cell.restore()

    def __eq__(self, other: object) -> bool:
        return (isinstance(other, SamplerState) and len(self._cells) == len(other._cells)
                and all(a.same(b) for a, b in zip(self._cells, other._cells)))

    def generators(self) -> list:
        """States of all random generators, plain Python, always in the same sequence."""
        return [c.contents for c in self._cells if c.how == "generator"]

    def set_generators(self, states: list) -> bool:
        """Give the generators themselves these states; False: they are not as many."""
        cells = [c for c in self._cells if c.how == "generator"]
        if len(cells) != len(states):
            return False
        for cell, state in zip(cells, states):
            _set_generator(cell.thing, state)
        return True

    def with_epochs(self) -> list:
        """The samplers that take set_epoch() and tell their epoch."""
        return [c.thing for c in self._cells if c.how == "object"
                and callable(getattr(c.thing, "set_epoch", None))
                and type(getattr(c.thing, "epoch", None)) is int]

    def _visit(self, thing: Any, inner: bool = False) -> None:
        if isinstance(thing, _PLAIN) or thing is self._dataset or id(thing) in self._seen:
            return
        self._seen.add(id(thing))
        state = _generator_state(thing)
        if state is not None:
            self._cells.append(_Cell(thing, state, "generator"))
        elif isinstance(thing, tuple):
            self._visit_all(thing)
        elif type(thing) in (list, collections.deque):
            self._add(thing, list(thing), "list", thing)
        elif type(thing) in (dict, collections.OrderedDict, collections.defaultdict):
            self._add(thing, dict(thing), "dict", thing.values())
        elif type(thing) is set:
            self._add(thing, set(thing), "set", ())
        elif isinstance(thing, (torch.Tensor, numpy.ndarray)):
            self._visit_array(thing)
        elif isinstance(thing, collections.abc.Iterator):
            self.moving = True
        elif (inner or isinstance(thing, Sampler)) and hasattr(thing, "__dict__"):
            self._cells.append(_Cell(thing, dict(vars(thing)), "object"))
            for name, held in vars(thing).items():
                if name not in _DATA:
                    self._visit(held, inner=name.endswith("sampler"))
        elif not isinstance(thing, Dataset):
            self.hidden = True

    def _add(self, thing: Any, contents: Any, how: str, held: Iterable) -> None:
        self._cells.append(_Cell(thing, contents, how))
        self._visit_all(held)

    def _visit_all(self, held: Iterable) -> None:
        held = list(held)
        if not set(map(type, held)) <= set(_PLAIN):
            for x in held:
                self._visit(x)

    def _visit_array(self, thing: Any) -> None:
        if isinstance(thing, numpy.ndarray) and thing.dtype.hasobject:
            self.hidden = True
            return
        copy = thing.detach().clone() if isinstance(thing, torch.Tensor) else thing.copy()
        self._cells.append(_Cell(thing, copy, "array"))
