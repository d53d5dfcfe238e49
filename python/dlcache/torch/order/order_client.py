# SPDX-License-Identifier: Apache-2.0
"""Leader: tells the daemon in which order a loader reads, and how far it is.

Workers read samples each through a session of its own; the order is told once, by the training
process, through a handle of its own, so that two loaders on one dataset are two cursors.

    Shuffle over a whole dataset or a split    told once by its seed: the daemon knows all epochs
    anything else, or with target files        listed, this epoch and, ahead, the one after it

A relaxed order that is told by its seed is also dealt: what is in a batch is asked for when it is
given to workers, and then is what the cache has, if it has anything that is still to come.

A listed order is a run of legs, one for each plan, or for each part of a plan without end; the
daemon counts them as its epochs.

(L1) Nothing here fails a training: without a daemon, or without a list of numbers, samples are read
     as they are asked for. It is said once, and tried again after RETRY_S.
(L2) Who dealt the first batch of a plan deals all of it, and where nobody did, nobody does: so each
     index comes once.
"""

from __future__ import annotations

import functools
import time
import warnings
import weakref
from collections.abc import Callable
from typing import Any, TypeGuard

import numpy

import dlcache
from dlcache.torch.order.batch_plans import Computed, Plan

__all__ = ["Leader"]

RETRY_S = 1.0


class Leader:
    """Leads for one iteration after the other.

    Args:
        source: What dlcache.torch.source_of() says of the dataset: a handle, of which only URL and
            options are used, and the sample number of each index.
        targets: The target file of each sample is read along with it. Positions count both then.
        relaxed: What is in memory may come first.
        join: Called with the handle when it is opened: what a sampler tells the daemon of it.
    """

    def __init__(self, source: tuple[dlcache.Dataset, Any], targets: bool = False,
                 relaxed: bool = False,
                 join: Callable[[dlcache.Dataset], None] | None = None) -> None:
        self._targets, self._each = targets, 2 if targets else 1
        self._relaxed = relaxed
        self._following: dict[str, Any] | None = None  # what the handle follows and deals
        self._url, self._options = source[0].url, source[0].again()
        self._mapping, self._join = source[1], join
        self._handle: dlcache.Dataset | None = None
        self._plan: Plan | None = None      # where the reader is
        self._mute: Plan | None = None      # a plan that cannot be told
        self._order: dict[str, Any] | None = None  # the computed order that was told
        self._legs: dict[Plan, int] = {}    # the plans that were told, and their daemon's epochs
        self._next_leg = 0
        self._numbers: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()  # also of the past
        self._waited = 0.0
        self._retry_at = 0.0
        self._warned = False

    def begin(self, plan: Plan) -> None:
        """The iteration of this plan begins, behind what was handed out of it."""
        self._plan = plan.leg(plan.handed)[0]
        self._try(self._begin)

    def look_ahead(self, plan: Plan) -> None:
        """This plan comes after the current one, probably."""
        if self._plan not in self._legs or plan in self._legs:
            return
        if self._order is None:
            self._try(lambda: self._more(plan))
        elif self._computable(plan) and self._spec(plan) == self._order:
            if plan.order.epoch == self._legs[self._plan] + 1:
                self._legs[plan] = self._numbers[plan] = plan.order.epoch

    def advance(self, plan: Plan, done: int, ahead: int, waited_s: float) -> None:
        """All batches before number `done` of the plan were read; so many samples behind them are
        in the hands of workers; so long have workers waited for bytes since the last call."""
        self._waited += waited_s
        leg, b = plan.leg(done)
        if leg is not self._plan or leg not in self._legs and leg is not self._mute:
            self._plan = leg
            self._try(self._begin)
        if leg in self._legs:
            at = self._position(leg, max(b, getattr(leg, "fixed", 0)))
            self._try(lambda: self._handle.advance(self._legs[leg], at, ahead * self._each,
                                                   self._waited))
        after = plan.next_leg(done)
        if after is not None:
            self.look_ahead(after)

    def deal(self, plan: Plan, b: int) -> None:
        """Batch b of the plan is given to a worker now: say what is in it, if we deal it."""
        if not isinstance(plan, Computed) or b in plan.dealt or b < plan.fixed:
            return
        first = plan.dealer is None
        if first:
            plan.dealer = self if plan in self._legs and self._deals(plan) else False
        if plan.dealer is not self:
            return
        at, end = plan.before(b), plan.before(b + 1)
        take = functools.partial(self._take, plan, at, end)
        found = self._try(take) if first else take()
        if found is None:
            plan.dealer = False  # it comes as its sampler says
            return
        plan.dealt[b] = found
        if b + 1 == plan.count() and plan.before(b + 1) < plan.length():
            plan.dealt[b + 1] = self._take(plan, plan.before(b + 1), plan.length())

    def swaps(self, plan: Computed) -> dict[int, int]:
        """What changed places in the plan, as far as it was not passed."""
        state = self._handle.state_dict()
        if state["epoch"] != plan.order.epoch:
            return {}
        pairs = numpy.frombuffer(state["swaps"], numpy.int64).reshape(-1, 2) - [0, self._first]
        return {at: index for at, index in pairs.tolist()}

    def daemon_stats(self) -> dict[str, Any] | None:
        """What the daemon knows of the dataset and of itself; None: it does not say."""
        handle = self._try(self._open)
        try:
            return handle.daemon_stats() if handle is not None else None
        except Exception:
            return None  # it may come back, and then it is told the order by the library

    def leg_of(self, plan: Plan) -> int | None:
        """How the daemon calls the epoch of a plan; None: it was not told."""
        return self._numbers.get(plan.leg(0)[0] if plan.count() is None else plan)

    def close(self) -> None:
        for plan in self._legs:
            if isinstance(plan, Computed) and plan.dealer is self:
                plan.restart()
                if plan.dealer is self:  # some of it was handed out
                    plan.swaps, plan.dealer = {at: index for at, index in plan.saved()}, False
        self._following = None
        handle, self._handle = self._handle, None
        self._legs.clear()
        if handle is not None:
            handle.close()

    # Telling

    def _try(self, what: Callable[[], Any]) -> Any:
        if time.monotonic() < self._retry_at:
            return None
        try:
            return what()
        except Exception as error:
            self._legs.clear()
            self._order = None
            self._retry_at = time.monotonic() + RETRY_S
            if not self._warned:
                self._warned = True
                warnings.warn(f"dlcache: the order of {self._url} could not be told to the daemon, "
                              f"so nothing is fetched ahead: {error}", stacklevel=2)
        return None

    def _open(self) -> dlcache.Dataset:
        if self._handle is None:
            self._handle = dlcache.open(self._url, **self._options)
            if self._join is not None:
                self._join(self._handle)
        return self._handle

    def _begin(self) -> None:
        plan = self._plan
        if plan in self._legs and (self._order is not None or not self._computable(plan)):
            self._legs = {plan: self._legs[plan]}
            if self._order is not None and isinstance(plan, Computed):
                self._to_its_start(plan)
        elif self._computable(plan):
            self._begin_computed(plan)
        else:
            self._begin_listed(plan)

    def _computable(self, plan: Plan) -> TypeGuard[Computed]:
        mapping = self._mapping
        return isinstance(plan, Computed) and plan.start == 0 and not self._targets and (
            mapping is None or isinstance(mapping, range) and mapping.step == 1)

    def _spec(self, plan: Computed) -> dict[str, Any]:
        order = plan.order
        spec = {"kind": "shuffled" if order.shuffle else "sequential", "seed": order.seed,
                "rank": order.rank, "world": order.world, "drop_last": order.drop_last,
                "first": self._first, "count": order.n}
        return dict(spec, relaxed=True) if self._may_deal(plan) else spec

    @property
    def _first(self) -> int:
        return 0 if self._mapping is None else self._mapping.start

    def _begin_computed(self, plan: Computed) -> None:
        """The daemon is told once; after that, which epoch."""
        order, epoch = self._spec(plan), plan.order.epoch
        last = max(self._legs.values(), default=-2)
        again = plan.dealer is self and self._deals(plan)  # after a failure elsewhere
        resumed = self._may_deal(plan) and (plan.handed or plan.out)
        if not again and (order != self._order or epoch not in (last, last + 1) or resumed):
            self._following = None
            at = self._position(plan, max(plan.handed, plan.fixed))
            self._open().follow(**order, epoch=epoch, position=at, **self._resumed(plan, at))
            self._following = order
            self._waited = 0.0
        else:
            self._to_its_start(plan)
        self._order, self._legs = order, {plan: epoch}
        self._numbers[plan] = epoch

    def _to_its_start(self, plan: Computed) -> None:
        """Who deals a plan begins with its first position: back, if that was passed, by an
        iteration of the same epoch or because it was made ahead."""
        if plan.dealer is None and self._deals(plan):
            self._handle.advance(plan.order.epoch, 0)
            self._waited = 0.0

    def _resumed(self, plan: Computed, first: int) -> dict[str, Any]:
        """What a state says beside epoch and position."""
        left = sorted(pair for pair in plan.swaps.items() if pair[0] >= first)
        if not left or not self._may_deal(plan):
            return {}
        return {"swaps": (numpy.array(left, numpy.int64) + [0, self._first]).tobytes()}

    def _may_deal(self, plan: Computed) -> bool:
        return self._relaxed and plan.order.shuffle and plan.dealer is not False

    def _deals(self, plan: Computed) -> bool:
        return (self._may_deal(plan) and self._handle is not None and self._computable(plan)
                and self._following == self._spec(plan))

    def _take(self, plan: Computed, first: int, last: int) -> list[int]:
        found = self._handle.take(plan.order.epoch, first, last - first)
        return [sample - self._first for sample in found]

    def _begin_listed(self, plan: Plan) -> None:
        self._order = self._following = None
        self._legs = {}
        samples = self._samples(plan)
        if samples is None:
            self._mute = plan
            return
        self._open().follow(samples, epoch=self._next_leg, targets=self._targets,
                            position=self._position(plan, plan.handed))
        self._waited = 0.0
        self._add(plan)

    def _more(self, plan: Plan) -> None:
        samples = self._samples(plan)
        if samples is not None:
            self._open().follow_more(samples, targets=self._targets)
            self._add(plan)

    def _add(self, plan: Plan) -> None:
        self._legs[plan] = self._numbers[plan] = self._next_leg
        self._next_leg += 1

    def _position(self, plan: Plan, b: int) -> int:
        return self._each * (plan.length() if b >= plan.count() else plan.before(b))

    def _samples(self, plan: Plan) -> numpy.ndarray | None:
        """The sample numbers of all indices of the plan; None: some index is no number of one."""
        mapping = self._mapping
        try:
            found = plan.numbers(len(self._open()) if mapping is None else len(mapping))
        except IndexError:  # whoever reads that sample says it
            return None
        if found is None or len(found) == 0:
            return None
        if mapping is None:
            return found
        if isinstance(mapping, range):
            return mapping.start + found * mapping.step
        return numpy.asarray(mapping)[found]
