# SPDX-License-Identifier: Apache-2.0
"""EpochState: the batch plan of this iteration and of the next one, and the state to save.

Each iteration over a loader has a BatchPlan. The plan of our own Shuffle is computed. Any other
sampler or batch sampler is captured when the iteration begins, and once more for the next iteration
when the loader calls ahead(). A sampler without end has a StreamPlan: it is read as batches are
needed.

Capturing ahead must not be noticed. The sampler is captured with random numbers of its own (from
the loader's seed and the epoch), so it does not matter when; its set_epoch() is called with the
step seen last; and afterwards its state is restored. When the iteration begins, the plan is used if
the sampler's state equals the one before the capture; the sampler then gets the state after it.

The state of a sampler that learns during an epoch never compares equal. Such a sampler sets
`dlcache_late = True` and is captured once per iteration, without restoring it, when little of the
previous iteration is left: at most LATE indices, or a fiftieth. What it learns after that applies
to the iteration after next. Our own ImportanceSampler keeps its draws by epoch.

(EPOCH-1) begin() returns the plan that was captured ahead only if the sampler would return the same
     now, or is a late one and of that epoch.
(EPOCH-2) A state resumes exactly: the batches that follow, and their seeds, are those that would
     have followed. For Shuffle and DistributedSampler also on another number of ranks: the rest of
     the global order, each sample once. For ImportanceSampler as many as were left, drawn again. In
     relaxed orders of Shuffle the samples that are left follow, each once, in any order.
(EPOCH-3) A state belongs to a snapshot of the dataset and is refused with another one.
"""

from __future__ import annotations

import copy
import itertools
import warnings
from collections.abc import Sequence
from typing import Any

import numpy
import torch
from torch.utils.data import BatchSampler, DistributedSampler

from dlcache.errors import other_snapshot
from dlcache.torch.order.batch_plans import BatchPlan, CapturedPlan, ComputedPlan, StreamPlan, mix
from dlcache.torch.order.importance import ImportanceSampler
from dlcache.torch.order.sampler_capture import (PackedIndices, SamplerState, SeededRandom, pack,
                                                 pack_lists)
from dlcache.torch.order.samplers import Shuffle, distributed, draw_seed
from dlcache.torch.sources import source_of

__all__ = ["EpochState", "LATE"]

LATE = 256
_VERSION, _SWAPPED = 1, 2  # of states, and of those with substitutions
_UNKNOWN = 1 << 20  # indices after which a sampler without length counts as endless
_CAPTURE = 2**64 - 1  # in place of the number of a batch


class EpochState:
    """The plans of a loader, one iteration after the other.

    Args:
        sampler, batch_sampler: As torch's loader has them; without batch sampler nothing is
            collated.
        dataset: What is sampled; samplers that refer to it are no copies of it.
        generator: From which the loader's seed is drawn, at the first iteration.
        seed: The loader's seed, where it is known.
        epoch, epochs: Of the first iteration; and how many there will be, None: no end.
    """

    def __init__(self, sampler: Any, batch_sampler: Any = None, *, dataset: Any = None,
                 generator: torch.Generator | None = None, seed: int | None = None,
                 epoch: int = 0, epochs: int | None = None) -> None:
        self._lists = batch_sampler is not None and type(batch_sampler) is not BatchSampler
        self._size, self._drop_last = None, False
        if self._lists:
            self._sampler = batch_sampler
        elif batch_sampler is None:
            self._sampler = sampler
        else:
            self._sampler = batch_sampler.sampler
            self._size, self._drop_last = batch_sampler.batch_size, batch_sampler.drop_last
        self._dataset, self._generator, self._epochs = dataset, generator, epochs
        self._seed = seed
        self._epoch = epoch  # of the next iteration
        self._step = 1    # by which set_epoch() goes on
        self._current: BatchPlan | None = None  # of the latest iteration
        self._ahead: BatchPlan | None = None
        self._ahead_after: SamplerState | None = None
        self._asked = False  # for what comes ahead
        self._loaded: dict[str, Any] | None = None

    # Plans

    @property
    def kind(self) -> str:
        """What is known of the sampler: "shuffle" and "distributed" have a global order, "drawn"
        has a list for each epoch."""
        its = getattr(type(self._sampler), "__iter__", None)
        if not self._lists and isinstance(self._sampler, Shuffle) and its is Shuffle.__iter__:
            return "shuffle"
        if (not self._lists and isinstance(self._sampler, DistributedSampler)
                and its is DistributedSampler.__iter__):
            return "distributed"
        if not self._lists and isinstance(self._sampler, ImportanceSampler):
            return "drawn"
        return "other"

    @property
    def sampler(self) -> Any:
        """The sampler that decides the order, or the user's own batch sampler."""
        return self._sampler

    @property
    def late(self) -> bool:
        """The sampler learns: it is asked once, and as late as may be."""
        return bool(getattr(self._sampler, "dlcache_late", False))

    @property
    def seed(self) -> int:
        """The loader's seed."""
        if self._seed is None:
            self._seed = draw_seed(self._generator)
        return self._seed

    def begin(self) -> BatchPlan:
        """An iteration begins: its plan."""
        state, self._loaded = self._loaded, None
        ahead, after = self._ahead, self._ahead_after
        self._ahead = self._ahead_after = None
        self._asked = False
        if state is not None:
            plan = self._resumed(state)
        elif self.kind == "shuffle":
            plan = self._computed(*self._sampler.begin())
            plan = ahead if plan.same(ahead) else plan
        elif self.kind == "drawn":
            plan = self._drawn(*self._sampler.take())
            same = ahead is not None and plan.start == 0 and (
                (plan.epoch, plan.sampler_epochs) == (ahead.epoch, ahead.sampler_epochs))
            plan = ahead if same else plan
        elif ahead is not None and ahead.epoch == self._epoch and self._still_says(ahead):
            plan = ahead
            if not self.late:
                after.restore()
        else:
            plan = self._capture()
        self._learn_step(plan)
        self._current = plan
        self._epoch = plan.epoch + 1
        if self.kind == "drawn":
            self._sampler.begun(plan.sampler_epochs[0])
        return plan

    def ahead(self) -> BatchPlan | None:
        """The plan of the next iteration, if the user goes on as before; None: not known. The
        sampler is captured at the first call in an iteration."""
        if not self._asked and self._loaded is None:
            self._asked = True
            if self._epochs is None or self._epoch < self._epochs:
                self._look_ahead()
        return self._ahead

    def due(self, plan: BatchPlan, given: int) -> bool:
        """So many batches of this plan are made or being made: is it time to ask for what comes
        ahead?"""
        count = plan.count()
        if count is None:
            return False
        if not self.late:
            return 2 * given >= count
        return plan.length() - plan.before(given) <= max(LATE, plan.length() // 50)

    def set_epoch(self, epoch: int) -> None:
        """The next iteration is of this epoch, and samplers that have epochs are told."""
        self._epoch = epoch
        if self._current is not None:
            self._current.finished = True
        for sampler in self._sampler_now().with_epochs():
            sampler.set_epoch(epoch)

    def _still_says(self, ahead: BatchPlan) -> bool:
        now = self._sampler_now()
        if self.late:
            return ahead.sampler_epochs == [s.epoch for s in now.with_epochs()]
        return ahead.held == now

    def _plan(self, **more: Any) -> dict[str, Any]:
        return dict({"epoch": self._epoch, "seed": self.seed}, **more)

    def _computed(self, epoch: int, start: int, **more: Any) -> ComputedPlan:
        return ComputedPlan(self._sampler, epoch, self._size, self._drop_last,
                            **self._plan(start=start, **more))

    def _drawn(self, epoch: int, start: int, indices: numpy.ndarray, **more: Any) -> CapturedPlan:
        plan = CapturedPlan(PackedIndices(int, indices), self._size, self._drop_last,
                            **self._plan(start=start, **more))
        plan.sampler_epochs = [epoch]
        return plan

    def _sampler_now(self) -> SamplerState:
        return SamplerState(self._sampler, self._dataset)

    def _learn_step(self, plan: BatchPlan) -> None:
        last = self._current.sampler_epochs if self._current is not None else []
        if last and plan.sampler_epochs:
            self._step = plan.sampler_epochs[0] - last[0]

    def _look_ahead(self) -> None:
        if self.kind == "shuffle":
            epoch = self._sampler.epoch + (0 if self._sampler.counts else self._step)
            self._ahead = self._computed(max(epoch, 0), 0)
            return
        if self.kind == "drawn":
            self._draw_ahead()
            return
        now = self._sampler_now()
        timed = now.with_epochs()
        if not self.late and (now.moving or (now.hidden and not timed)):
            return
        try:
            for sampler in timed:
                sampler.set_epoch(max(sampler.epoch + self._step, 0))
            plan = self._capture()
            if plan.count() is not None:
                self._ahead, self._ahead_after = plan, self._sampler_now()
        except Exception:
            pass  # it will be raised when the iteration begins, if it is still so then
        finally:
            if self._ahead is None or not self.late:
                now.restore()

    def _draw_ahead(self) -> None:
        epoch = max(self._sampler.epoch + (0 if self._sampler.counts else self._step), 0)
        try:
            self._ahead = self._drawn(epoch, 0, self._sampler.indices_of(epoch))
        except Exception:
            pass  # as above

    def _capture(self) -> BatchPlan:
        """What the sampler says now."""
        held = self._sampler_now()
        seeded = SeededRandom(mix(self.seed, self._epoch, _CAPTURE))
        own = self._own_state()
        try:
            limit = len(self._sampler)
        except (TypeError, NotImplementedError):
            limit = _UNKNOWN
        with seeded:
            said = iter(self._sampler)
            head = itertools.islice(said, limit)
            items, ends = pack_lists(head) if self._lists else (pack(head), None)
            more = list(itertools.islice(said, 1))
        plan: BatchPlan = CapturedPlan(items, self._size, self._drop_last, ends, **self._plan())
        if more:
            rest = itertools.chain(_whole(items, ends), more, said)
            if self._size is not None:
                rest = iter(BatchSampler(rest, self._size, self._drop_last))
            lists = self._lists or self._size is not None
            plan = StreamPlan(rest, lists, seeded, **self._plan())
        plan.held, plan.own = held, own
        plan.sampler_epochs = [s.epoch for s in held.with_epochs()]
        return plan

    # State

    def state_dict(self) -> dict[str, Any]:
        """All that is needed to go on behind the last batch that was handed to the user; plain
        Python."""
        if self._loaded is not None:
            return copy.deepcopy(self._loaded)
        plan = self._current
        if plan is None or plan.finished:
            plan = BatchPlan(self._epoch, self.seed)
            if self.late and self._ahead is not None:  # who was asked for it already
                plan.held, plan.own = self._ahead.held, self._ahead.own
            else:
                plan.held, plan.own = self._sampler_now(), self._own_state()
            fresh = True
        else:
            fresh = False
        swaps = [] if fresh else plan.saved()
        return {
            "version": _SWAPPED if swaps else _VERSION,
            "kind": self.kind,
            "epoch": plan.epoch,
            "seed": self.seed,
            "world": self._world(),
            "rank": self._rank(),
            "size": self._size,
            "start": plan.start,
            "offset": plan.offset,
            "handed": plan.handed,
            "out": sorted(plan.out),
            "consumed": 0 if fresh else plan.start + plan.before(plan.handed) * self._world(),
            "batches": None if fresh else plan.count(),
            "crc": None if fresh else plan.crc(),
            "sampler": self._sampler_state(plan, fresh),
            "swaps": swaps,
            "snapshot": self._bucket_snapshot(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on there at the next begin(). Raises ValueError when that is not possible."""
        state = copy.deepcopy(state)
        self._check(state)
        held, sampler = state["sampler"], self._sampler
        if self.kind == "shuffle":
            sampler.load_state_dict(dict(held, start=0))
        elif self.kind == "drawn":
            start = state["start" if self._same_layout(state) else "consumed"]
            sampler.load_state_dict(dict(held["own"], start=start))
        elif self.kind == "distributed":
            sampler.seed = held["seed"]
            sampler.set_epoch(held["epoch"])
        else:
            self._load_other(held)
        self._seed, self._epoch, self._loaded = state["seed"], state["epoch"], state
        self._current = None
        self._ahead = self._ahead_after = None

    def _bucket_snapshot(self) -> str | None:
        """What indices mean; None: the dataset is not one of ours."""
        source = source_of(self._dataset)
        return None if source is None else source[0].snapshot

    def _world(self) -> int:
        if self.kind in ("shuffle", "drawn"):
            return self._sampler.world
        return self._sampler.num_replicas if self.kind == "distributed" else distributed()[1]

    def _rank(self) -> int:
        return self._sampler.rank if self.kind == "shuffle" else distributed()[0]

    def _own_state(self) -> Any:
        if self.kind != "other" or not (hasattr(self._sampler, "state_dict")
                                        and hasattr(self._sampler, "load_state_dict")):
            return None
        return copy.deepcopy(self._sampler.state_dict())

    def _sampler_state(self, plan: BatchPlan, fresh: bool) -> dict[str, Any]:
        sampler = self._sampler
        if self.kind == "other":
            return {"epochs": [s.epoch for s in plan.held.with_epochs()] if fresh
                    else plan.sampler_epochs,
                    "generators": plan.held.generators(), "own": plan.own}
        if self.kind == "drawn":
            own = sampler.state_dict() if fresh else sampler.state_of(plan.sampler_epochs[0])
            return {"epoch": own["epoch"], "own": own}
        n = sampler.n if self.kind == "shuffle" else len(sampler.dataset)
        epoch = sampler.epoch if fresh else plan.sampler_epochs[0]
        return {"n": n, "seed": sampler.seed, "epoch": epoch}

    def _check(self, state: dict[str, Any]) -> None:
        if state.get("version") not in (_VERSION, _SWAPPED):
            raise ValueError(f"a state of version {state.get('version')!r}: this dlcache reads "
                             f"versions {_VERSION} and {_SWAPPED}; take the one that wrote it")
        theirs, ours = state.get("snapshot"), self._bucket_snapshot()
        if None not in (theirs, ours) and theirs != ours:
            raise other_snapshot("the state", source_of(self._dataset)[0].url, theirs, ours)
        if state["kind"] != self.kind:
            raise ValueError(f"the state is of a loader with a sampler of kind {state['kind']!r}, "
                             f"this one has {self.kind!r}: build it as it was built then")
        if state["world"] != self._world() and self.kind == "other":
            raise ValueError(
                f"the state was made on {state['world']} ranks and this is one of {self._world()}: "
                f"with {type(self._sampler).__name__} only the same number can resume; use "
                "dlcache.torch.Shuffle or DistributedSampler to change it")
        if (state["out"] or state.get("swaps")) and not self._same_layout(state):
            raise ValueError("the state was made in relaxed order, in mid-epoch: only the same "
                             "number of ranks and batch size can resume it")
        if state.get("swaps") and state["rank"] != self._rank():
            raise ValueError(f"the state was made in relaxed order, in mid-epoch, by rank "
                             f"{state['rank']}, and this is rank {self._rank()}: each rank resumes "
                             "its own")
        if self.kind == "distributed" and state["sampler"]["n"] != len(self._sampler.dataset):
            raise ValueError(f"the state is of {state['sampler']['n']} samples, and here are "
                             f"{len(self._sampler.dataset)}: it cannot be resumed with other data")

    def _load_other(self, held: dict[str, Any]) -> None:
        if held["own"] is not None:
            self._sampler.load_state_dict(held["own"])
        now = self._sampler_now()
        timed = now.with_epochs()
        if len(timed) != len(held["epochs"]) or not now.set_generators(held["generators"]):
            raise ValueError(f"the state is of another sampler than {type(self._sampler).__name__} "
                             "with its generators: build it as it was built then")
        for sampler, epoch in zip(timed, held["epochs"]):
            sampler.set_epoch(epoch)

    def _same_layout(self, state: dict[str, Any]) -> bool:
        return state["world"] == self._world() and state["size"] == self._size

    def _resumed(self, state: dict[str, Any]) -> BatchPlan:
        begun = state["handed"] or state["out"] or state["start"]
        same = self._same_layout(state)
        start = state["start"] if same else state["consumed"]
        offset = state["offset"] + (0 if same else state["handed"])
        if self.kind == "shuffle":
            plan: BatchPlan = self._computed(self._sampler.begin()[0], start, offset=offset)
        elif self.kind == "drawn":
            plan = self._drawn(*self._sampler.take(), offset=offset)
        elif self.kind == "distributed" and start > 0:
            plan = self._dealt(start, offset)
        else:
            plan = self._capture()
            if begun:
                self._check_captured(plan, state)
        if begun and plan.sampler_epochs != self._epochs_of(state):
            warnings.warn(f"the state is of epoch {self._epochs_of(state)} of the sampler, and "
                          f"set_epoch() said {plan.sampler_epochs}: that one begins at its start",
                          stacklevel=4)
            plan.offset = 0
            return self._computed(plan.sampler_epochs[0], 0) if self.kind == "shuffle" else (
                self._capture() if self.kind == "distributed" and start > 0 else plan)
        if same:
            plan.handed, plan.out = state["handed"], set(state["out"])
            if isinstance(plan, ComputedPlan):
                plan.swaps = {at: index for at, index in state.get("swaps", ())}
                plan.fixed = max(plan.out, default=plan.handed - 1) + 1
        return plan

    @staticmethod
    def _epochs_of(state: dict[str, Any]) -> list[int]:
        held = state["sampler"]
        return [held["epoch"]] if "epoch" in held else held["epochs"]

    def _check_captured(self, plan: BatchPlan, state: dict[str, Any]) -> None:
        if (self.kind == "other" and state["rank"] == distributed()[0]
                and plan.sampler_epochs == self._epochs_of(state)
                and (plan.count(), plan.crc()) != (state["batches"], state["crc"])):
            raise RuntimeError(
                f"{type(self._sampler).__name__} does not say what it said when the state was made "
                f"({plan.count()} batches, then {state['batches']}): it cannot be resumed in "
                "mid-epoch. Take the same data, and a sampler whose randomness comes from torch, "
                "random, numpy or a generator that it holds, or one with state_dict()")

    def _dealt(self, start: int, offset: int) -> BatchPlan:
        """The rest of DistributedSampler's global order, divided among the ranks of now."""
        sampler, whole = self._sampler, copy.copy(self._sampler)
        whole.num_replicas, whole.rank, whole.drop_last = 1, 0, False
        whole.num_samples = whole.total_size = len(sampler.dataset)
        packed: Any = pack(whole)
        order = packed.array
        world, left = sampler.num_replicas, max(len(order) - start, 0)
        length = left // world if sampler.drop_last else -(-left // world)
        at = start + sampler.rank + numpy.arange(length) * world
        indices = PackedIndices(int, order[at % len(order)].tobytes())
        plan = CapturedPlan(indices, self._size, self._drop_last,
                            **self._plan(start=start, offset=offset))
        plan.held, plan.sampler_epochs = self._sampler_now(), [sampler.epoch]
        return plan


def _whole(items: Sequence, ends: list[int] | None) -> Any:
    """What was packed, as it was."""
    return items if ends is None else (items[a:b] for a, b in itertools.pairwise(ends))
