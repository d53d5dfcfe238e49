# SPDX-License-Identifier: Apache-2.0
"""ImportanceSampler: draws each epoch by importance weights (docs/importance.md).

    sampler = ImportanceSampler(train, mode="coverage", every=4)
    loader = DataLoader(train, 256, sampler=sampler)
    for images, labels in loader:
        losses = cross_entropy(model(images), labels, reduction="none")
        losses.mean().backward()
        loader.learn(losses)

The daemon holds the weights, one for each sample, and all ranks of a job on a machine share them.
The list of an epoch is drawn when little of the previous one is left (`dlcache_late`,
epoch_state.py). After that it does not change: later losses apply to the next epoch.

(IMPORTANCE-1) A loss is credited to the sample that it was computed from: learn() knows which batch
     was handed out, and which of its samples were left out or replaced.
(IMPORTANCE-2) A list is drawn once for each epoch; a state holds it, so that a resumed run reads
     the same samples.
"""

from __future__ import annotations

import math
import os
import uuid
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy
import torch
import torch.distributed

import dlcache
from dlcache.errors import other_snapshot
from dlcache.torch.epoch_rows import EpochRow
from dlcache.torch.order.importance_weights import (MODES, RULES, DrawSpec, ImportanceFigures,
                                                    ImportanceWeights, flat)
from dlcache.torch.order.ranks import open_agreed
from dlcache.torch.order.samplers import EpochSampler, distributed
from dlcache.torch.sources import source_of, split_of

__all__ = ["ImportanceFigures", "ImportanceSampler", "learn"]

_VERSION = 1
_STEP, _LEAST, _MOST = 0.5, 1.0, 5.0  # of replication="auto"
_WAITS = 0.05    # prefer="auto": with this share of the time spent waiting for the bucket ...
_PREFER = 64.0   # ... residents weigh so much more; half of it after each epoch with less
_MEANS = {
    "mode": '"coverage" (nothing twice in an epoch, everything at least once in `every` epochs) or '
            '"shade" (drawn with replacement, cached draws first)',
    "rule": '"rank" (by the rank of a loss within its batch) or "plain" (what is given is the '
            'weight)'}


class ImportanceSampler(EpochSampler):
    """Indices of the samples that the model has yet to learn, more often than of the others.

    Args:
        source: What is loaded: a dlcache.torch.Dataset, a Subset of one, a dlcache.Dataset, or a
            URL, with `split` and options as of dlcache.open().
        mode: "coverage": no sample twice in an epoch, and each at least once in any `every`
            epochs. "shade": drawn with replacement; draws that are cached come first, each
            `replication` times.
        rule: "rank": the weight follows the rank of a loss within its batch. "plain": the loss, or
            whatever is given for it, is the weight.
        length: Positions of an epoch over all ranks. None: as many as there are samples ("shade"),
            or half of it ("coverage").
        every: "coverage": each sample at least once in so many epochs.
        replication: "shade": 0.5 to 100 in steps of 0.5; "auto": from 1 to 5, as score() says.
        prefer: "coverage": so many times is the weight of samples in memory; "auto": 1, and more
            for as long as training waits for the bucket.
        seed: The same on all ranks.
        rank, world: Which part of how many. None: as torch.distributed says where it is
            initialised, else 0 of 1.
        job: Whose weights: who says the same name shares them. None: DLCACHE_JOB, else one for all
            ranks of torch.distributed, else this process's own.

    `epoch` is the one that the next iteration gives. It counts by itself; once set_epoch() was
    called, only that changes it.
    """

    dlcache_late = True

    def __init__(self, source: Any, *, mode: str = "coverage", rule: str = "rank",
                 length: int | None = None, every: int = 4, replication: float | str = 1.0,
                 prefer: float | str = "auto", seed: int = 0, rank: int | None = None,
                 world: int | None = None, job: str | None = None, split: str | None = None,
                 **options: Any) -> None:
        for name, value, known in (("mode", mode, MODES), ("rule", rule, RULES)):
            if value not in known:
                raise ValueError(f"{name}={value!r}: it is {_MEANS[name]}")
        found = distributed() if rank is None or world is None else (0, 1)
        rank = found[0] if rank is None else rank
        world = found[1] if world is None else world
        if not 0 <= rank < world:
            raise ValueError(f"rank {rank} of world {world}: ranks count from 0 to world - 1")
        _check_replication(mode, replication)
        _check_prefer(mode, prefer)
        source = _opened(source, split, options)
        n = len(source[0]) if source[1] is None else len(source[1])
        length = _length_of(n, mode, length, every)
        spec = DrawSpec(mode, rule, rank, world, seed % 2**64, length, every, job or _common_job())
        self._draws = _EpochDraws(ImportanceWeights(source, spec), replication, prefer)

    # What it is

    @property
    def n(self) -> int:
        """Samples there are."""
        return self._draws.weights.n

    @property
    def rank(self) -> int:
        return self._draws.weights.spec.rank

    @property
    def world(self) -> int:
        return self._draws.weights.spec.world

    @property
    def seed(self) -> int:
        return self._draws.weights.spec.seed

    @property
    def replication(self) -> float:
        """Of the next epoch that is drawn."""
        return self._draws.replication

    @property
    def prefer(self) -> float:
        """Of the epoch that was drawn last."""
        return self._draws.prefer

    def __len__(self) -> int:
        """Positions of this rank in a whole epoch, also when the next one is resumed."""
        return -(-self._draws.weights.spec.length // self.world)

    # Epochs

    def __iter__(self) -> Iterator[int]:
        epoch, _, indices = self.take()
        self.begun(epoch)
        return iter(indices.tolist())

    def take(self) -> tuple[int, int, numpy.ndarray]:
        """An iteration begins; returns its epoch, how many samples of it all ranks have consumed,
        and the indices that are left."""
        indices = self._draws.indices(self.epoch)  # may fail: then the epoch has not begun
        epoch, start = self.begin()
        left = -(-max(self._draws.weights.spec.length - start, 0) // self.world)
        return epoch, start, indices[max(len(indices) - left, 0):] if start else indices

    def indices_of(self, epoch: int) -> numpy.ndarray:
        """All of an epoch, for a loader that looks ahead. They do not change (IMPORTANCE-2)."""
        return self._draws.indices(epoch)

    def begun(self, epoch: int) -> None:
        """What is learnt from now on is of this epoch."""
        self._draws.reading = epoch

    # Learning

    def update(self, indices: Any, losses: Any) -> None:
        """losses[i] is that of the sample with indices[i]; any samples of the dataset, in any
        number. Losses on a GPU are copied while it works on, and learnt at the next call."""
        self._draws.weights.learn(max(self._draws.reading, 0), indices, flat(losses))

    def score(self, value: float) -> None:
        """The model's validation score, higher is better, the same on all ranks. With
        replication="auto": a score that went up makes it 0.5 more, one that fell 0.5 less."""
        value = float(value)
        if math.isnan(value):
            raise ValueError("the score is not a number (NaN): give one that is higher when the "
                             "model is better")
        self._draws.score(value)

    def weights(self) -> torch.Tensor:
        """One for each index; 0: never learnt."""
        return self._draws.weights.values()

    def set_weights(self, values: Any) -> None:
        """One for each index; 0: never learnt."""
        self._draws.weights.set_values(values)

    @property
    def figures(self) -> ImportanceFigures | None:
        """Of the epoch that is being read, or was read last."""
        self._draws.weights.settle()
        return self._draws.weights.figures.get(self._draws.reading)

    # For loaders

    def check(self, source: tuple[dlcache.Dataset, Sequence[int] | None]) -> None:
        """ValueError unless what is loaded (as source_of() says it) is what is weighed: else losses
        would meet other samples."""
        handle, numbers = source
        why = self._draws.weights.differs(handle.url, handle.snapshot,
                                          range(len(handle)) if numbers is None else numbers)
        if why is not None:
            raise ValueError(f"{why}: make ImportanceSampler of the very dataset that is loaded, or "
                             "of the same URL and split")

    def join(self, handle: dlcache.Dataset) -> None:
        """Who reads through this handle goes by these weights."""
        self._draws.weights.join(handle)

    def watch(self, waits: Callable[[], tuple[float, float]]) -> None:
        """waits() says, for prefer="auto", the seconds that training has waited for the bucket, and
        all seconds since it began."""
        self._draws.waits = waits

    # State

    def state_dict(self) -> dict[str, Any]:
        """Of the next iteration. dlcache's loaders keep count in mid-epoch; with another loader,
        set "start" to the samples that all ranks took together."""
        return self.state_of(self.epoch, self._start)

    def state_of(self, epoch: int, start: int = 0) -> dict[str, Any]:
        """A state whose next iteration is this epoch."""
        s = self._draws.weights.spec
        return {"version": _VERSION, "n": self.n, "snapshot": self._draws.weights.snapshot,
                "epoch": epoch, "start": start, "counts": self._counts, **s._asdict(),
                **self._draws.state(epoch)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """A state from any number of ranks; raises ValueError when it is of other data or settings.
        One of another rank, or of another number of them: what is left of its epoch is drawn
        again."""
        if state.get("version") != _VERSION:
            raise ValueError(f"a state of version {state.get('version')!r}: this dlcache reads "
                             f"version {_VERSION}; take the one that wrote it")
        weights = self._draws.weights
        if state.get("snapshot", weights.snapshot) != weights.snapshot:
            raise other_snapshot("the state", weights.url, state["snapshot"], weights.snapshot)
        now = weights.spec
        for name, here in (("n", self.n), ("mode", now.mode), ("rule", now.rule),
                           ("length", now.length), ("every", now.every)):
            if state[name] != here:
                raise ValueError(f"the state is of {name}={state[name]}, and here is {name}={here}: "
                                 "build the sampler as it was built then; set_weights(state["
                                 "\"weights\"]) takes the weights alone")
        self._draws.weights.spec = now._replace(seed=state["seed"])
        self.epoch, self._start, self._counts = state["epoch"], state["start"], state["counts"]
        same = (state["rank"], state["world"]) == (now.rank, now.world)
        self._draws.load_state(state, same)

    def __getstate__(self) -> dict[str, Any]:
        return dict(vars(self), _draws=self._draws.copy())


class _EpochDraws:
    """What changes while a sampler is used; apart from it, so that looking ahead (SamplerState)
    does not put it back."""

    def __init__(self, weights: ImportanceWeights, replication: float | str,
                 prefer: float | str) -> None:
        self.weights = weights
        self._asked = replication, prefer
        self.replication = _LEAST if replication == "auto" else float(replication)
        self.prefer = 1.0 if prefer == "auto" else float(prefer)
        self.reading = -1
        self.waits: Callable[[], tuple[float, float]] | None = None
        self._waited = (0.0, 0.0)   # what waits() said when the last epoch was drawn
        self._score: float | None = None
        self._lists: dict[int, numpy.ndarray] = {}  # of the epoch that is read, and of the next

    def indices(self, epoch: int) -> numpy.ndarray:
        """(IMPORTANCE-2)"""
        if epoch not in self._lists:
            self._choose_prefer()
            drawn = self.weights.draw(epoch, self.replication, self.prefer)
            kept = {self.reading, epoch}
            self._lists = {e: had for e, had in self._lists.items() if e in kept}
            self._lists[epoch] = drawn
            self.weights.figures = {e: f for e, f in self.weights.figures.items() if e in kept}
        return self._lists[epoch]

    def _choose_prefer(self) -> None:
        if self._asked[1] != "auto" or self.waits is None:
            return
        now = self.waits()
        waited, wall = (b - a for a, b in zip(self._waited, now))
        self._waited = now
        if wall > 0:
            much = waited / wall > _WAITS
            self.prefer = _PREFER if much else max(self.prefer / 2, 1.0)

    def score(self, value: float) -> None:
        before, self._score = self._score, value
        if self._asked[0] == "auto" and before is not None and value != before:
            step = _STEP if value > before else -_STEP
            self.replication = min(max(self.replication + step, _LEAST), _MOST)

    def state(self, epoch: int) -> dict[str, Any]:
        lists = {e: torch.from_numpy(had.copy()) for e, had in self._lists.items()
                 if epoch <= e <= epoch + 1}
        return {"weights": self.weights.values(), "scale": self.weights.scale(), "lists": lists,
                "figures": {e: vars(self.weights.figures[e]).copy() for e in lists},
                "replication": self.replication, "prefer": self.prefer, "score": self._score}

    def load_state(self, state: dict[str, Any], same: bool) -> None:
        self.weights.set_values(state["weights"])
        self.weights.set_scale(state["scale"])
        self._score = state["score"]
        self.replication = state["replication"] if self._asked[0] == "auto" else self.replication
        self.prefer = state["prefer"] if self._asked[1] == "auto" else self.prefer
        self.reading = -1
        self._lists, self.weights.figures = {}, {}
        if same:
            self._lists = {e: numpy.array(had) for e, had in state["lists"].items()}
            self.weights.figures = {e: ImportanceFigures(**had)
                                    for e, had in state["figures"].items()}

    def copy(self) -> _EpochDraws:
        """For another process: it opens again."""
        made = _EpochDraws.__new__(_EpochDraws)
        vars(made).update(vars(self), weights=self.weights.copy(), waits=None, _waited=(0.0, 0.0))
        return made


def learn(sampler: Any, indices: Sequence[int], losses: Any,
          places: Sequence[int | None] | None = None) -> None:
    """A sampler learns what came of a batch.

    Args:
        indices: Of which the batch was made.
        losses: One for each sample that is in it.
        places: Which of the indices each sample in the batch is of; None: it stands in for a bad
            one, and nothing is learnt of it. Without: all are as they were asked for.
    """
    losses = flat(losses)
    count = len(indices) if places is None else len(places)
    if len(losses) != count:
        hint = ("; compute one for each sample: reduction=\"none\", then losses.mean().backward()"
                if len(losses) == 1 else
                "; give those of the batch that was handed out last, one for each sample in it")
        raise ValueError(f"{len(losses)} losses for a batch of {count} samples{hint}")
    if places is not None:
        good = [k for k, place in enumerate(places) if place is not None]
        losses, indices = losses[good], [indices[places[k]] for k in good]
    sampler.update(indices, losses)


def learner(sampler: Any) -> Any:
    """The sampler itself, or TypeError when it cannot learn."""
    if not callable(getattr(sampler, "update", None)):
        raise TypeError(f"learn() needs a sampler that learns, and this loader has "
                        f"{type(sampler).__name__}: give sampler=dlcache.torch.ImportanceSampler("
                        "dataset)")
    return sampler


def row_of(plan: Any, sampler: Any, n: int) -> EpochRow | None:
    """What the epoch of a plan has seen of n samples, for a report; None: it does not say."""
    figures = sampler.figures if isinstance(sampler, ImportanceSampler) else None
    if figures is not None and plan.sampler_epochs == [figures.epoch]:
        return EpochRow(plan.epoch, 0.0, 0.0, figures.positions, figures.distinct, figures.coverage,
                        figures.effective, figures.ignored)
    distinct = plan.distinct()
    if distinct is None or n == 0:
        return None
    world = getattr(sampler, "world", distributed()[1])
    return EpochRow(plan.epoch, 0.0, 0.0, plan.length(), distinct, min(1.0, distinct * world / n))


# ---- arguments ----


def _opened(source: Any, split: str | None,
            options: dict[str, Any]) -> tuple[dlcache.Dataset, Sequence[int] | None]:
    if isinstance(source, (str, os.PathLike)):
        handle = open_agreed(os.fspath(source), **options)
        return handle, None if split is None else split_of(handle, split)
    if options or split is not None:
        raise TypeError(f"{', '.join([*options, *(['split'] if split else [])])}: of a dataset that "
                        "is open already; they go with a URL")
    found = source_of(source)
    if found is None:
        raise TypeError(f"importance of a {type(source).__name__}: give a dlcache.torch.Dataset, a "
                        "Subset of one, a dlcache.Dataset or a URL; weights are kept by the daemon "
                        "that reads the samples")
    return found


def _length_of(n: int, mode: str, length: int | None, every: int) -> int:
    if n == 0:
        raise ValueError("there are no samples to draw from")
    if every < 1:
        raise ValueError(f"every={every}: each sample comes at least once in so many epochs; give 1 "
                         "or more")
    least = -(-n // every) if mode == "coverage" else 1
    if length is None:
        return n if mode == "shade" else max(least, -(-n // 2))
    if length < least:
        raise ValueError(f"length={length}: an epoch has at least {least} positions" + (
            f" when each of {n} samples comes once in {every} epochs; give a larger `every`"
            if mode == "coverage" else ""))
    if mode == "coverage" and length > n:
        raise ValueError(f"length={length}: there are {n} samples, and none comes twice in an epoch")
    return length


def _check_replication(mode: str, value: float | str) -> None:
    if value == "auto" and mode == "shade":
        return
    if mode == "coverage" and value != 1:
        raise ValueError(f'replication={value!r}: of mode="shade"; with "coverage" no sample comes '
                         "twice in an epoch")
    if isinstance(value, str) or not 0.5 <= value <= 100 or 2 * value != int(2 * value):
        raise ValueError(f'replication={value!r}: 0.5 to 100 in steps of 0.5, or "auto"')


def _check_prefer(mode: str, value: float | str) -> None:
    if value == "auto":
        return
    if isinstance(value, str) or not 1 <= value <= 1000:
        raise ValueError(f'prefer={value!r}: 1 to 1000, so many times is the weight of samples in '
                         'memory, or "auto"')
    if mode == "shade" and value != 1:
        raise ValueError(f'prefer={value}: of mode="coverage"; with "shade", replication does it')


def _common_job() -> str | None:
    """One name for all ranks of torch.distributed; None: as the library says."""
    if os.environ.get("DLCACHE_JOB") or distributed()[1] == 1:
        return None
    try:
        store = torch.distributed.distributed_c10d._get_default_store()
        name = store.compare_set("dlcache/job", "", f"torch-{uuid.uuid4().hex[:16]}")
        return name.decode()
    except (AttributeError, RuntimeError, ValueError) as error:
        warnings.warn(f"dlcache: ranks do not share their weights, for they have no job in common "
                      f"({error}); set DLCACHE_JOB to one name for all", stacklevel=4)
        return None
