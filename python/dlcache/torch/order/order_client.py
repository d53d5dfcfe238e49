# SPDX-License-Identifier: Apache-2.0
"""OrderClient: announces to the daemon the order in which a loader reads, and its position.

Each worker reads samples through a session of its own. Only the training process announces the
order, through a separate handle, so that two loaders of one dataset are two cursors.

    Shuffle over a whole dataset or a split    announced once by its seed: all epochs are known
    anything else, or with target files        listed: this epoch and, ahead, the next one

In a relaxed order that is announced by its seed, the daemon also deals: it is asked for the content
of a batch when the batch goes to a worker, and returns samples that the cache holds, if any of
those still to come are there.

A listed order is a sequence of parts, one for each plan, or for each part of a StreamPlan; the
daemon counts each as an epoch.

(ORDER-CLIENT-1) Nothing here fails a training: without a daemon, or without a list of numbers,
     samples are fetched when they are asked for. A warning says so once; retried after RETRY_S.
(ORDER-CLIENT-2) A plan is dealt either entirely by the daemon or not at all, so every index appears
     exactly once.
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
from dlcache.torch.order.batch_plans import BatchPlan, ComputedPlan

__all__ = ["OrderClient"]

RETRY_S = 1.0


class OrderClient:
    """Announces one iteration after the other.

    Args:
        source: source_of() of the dataset: a handle, of which only URL and options are used, and
            the sample number of each index.
        targets: The target file of each sample is read along with it. Positions count both then.
        relaxed: Samples in memory may come first.
        window: Samples that are fetched ahead; 0: the daemon measures.
        join: Called with the handle when it is opened, so that a sampler can join it.
    """

    def __init__(self, source: tuple[dlcache.Dataset, Any], targets: bool = False,
                 relaxed: bool = False,
                 join: Callable[[dlcache.Dataset], None] | None = None, window: int = 0) -> None:
        self._targets, self._each = targets, 2 if targets else 1
        self._relaxed = relaxed
        self._by_hand: dict[str, Any] = {"window": window * self._each} if window else {}
        self._following: dict[str, Any] | None = None  # the order that the handle follows and deals
        self._url, self._options = source[0].url, source[0].again()
        self._mapping, self._join = source[1], join
        self._handle: dlcache.Dataset | None = None
        self._plan: BatchPlan | None = None      # where the reader is
        self._mute: BatchPlan | None = None      # a plan that cannot be announced
        self._order: dict[str, Any] | None = None  # the computed order that was announced
        self._told: dict[BatchPlan, int] = {}    # announced plans, and their epochs in the daemon
        self._next_epoch = 0
        # The same, also of past plans
        self._daemon_epochs: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()
        self._waited = 0.0
        self._retry_at = 0.0
        self._warned = False

    def begin(self, plan: BatchPlan) -> None:
        """The iteration of this plan begins, after the batches that were handed out of it."""
        self._plan = plan.part_at(plan.handed)[0]
        self._try(self._begin)

    def look_ahead(self, plan: BatchPlan) -> None:
        """This plan comes after the current one, probably."""
        if self._plan not in self._told or plan in self._told:
            return
        if self._order is None:
            self._try(lambda: self._more(plan))
        elif self._computable(plan) and self._spec(plan) == self._order:
            if plan.order.epoch == self._told[self._plan] + 1:
                self._told[plan] = self._daemon_epochs[plan] = plan.order.epoch

    def advance(self, plan: BatchPlan, done: int, ahead: int, waited_s: float) -> None:
        """All batches before number `done` of the plan were read; the next `ahead` samples are with
        workers; workers have waited waited_s for bytes since the last call."""
        self._waited += waited_s
        part, b = plan.part_at(done)
        if part is not self._plan or part not in self._told and part is not self._mute:
            self._plan = part
            self._try(self._begin)
        if part in self._told:
            at = self._position(part, max(b, getattr(part, "fixed", 0)))
            self._try(lambda: self._handle.advance(self._told[part], at, ahead * self._each,
                                                   self._waited))
        after = plan.next_part(done)
        if after is not None:
            self.look_ahead(after)

    def deal(self, plan: BatchPlan, b: int) -> None:
        """Batch b goes to a worker now: fix its content, if the daemon deals the plan."""
        if not isinstance(plan, ComputedPlan) or b in plan.dealt or b < plan.fixed:
            return
        first = plan.dealer is None
        if first:
            plan.dealer = self if plan in self._told and self._deals(plan) else False
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

    def swaps(self, plan: ComputedPlan) -> dict[int, int]:
        """Substitutions in the plan after the current position: {position: index}."""
        state = self._handle.state_dict()
        if state["epoch"] != plan.order.epoch:
            return {}
        pairs = numpy.frombuffer(state["swaps"], numpy.int64).reshape(-1, 2) - [0, self._first]
        return {at: index for at, index in pairs.tolist()}

    def daemon_stats(self) -> dict[str, Any] | None:
        """Statistics of the daemon and the dataset; None: the daemon does not answer."""
        handle = self._try(self._open)
        try:
            return handle.daemon_stats() if handle is not None else None
        except Exception:
            return None  # if it comes back, the library announces the order again

    def daemon_epoch_of(self, plan: BatchPlan) -> int | None:
        """The number of a plan's epoch in the daemon; None: it was not announced."""
        return self._daemon_epochs.get(plan.part_at(0)[0] if plan.count() is None else plan)

    def close(self) -> None:
        for plan in self._told:
            if isinstance(plan, ComputedPlan) and plan.dealer is self:
                plan.restart()
                if plan.dealer is self:  # some of it was handed out
                    plan.swaps, plan.dealer = {at: index for at, index in plan.saved()}, False
        self._following = None
        handle, self._handle = self._handle, None
        self._told.clear()
        if handle is not None:
            handle.close()

    # Announcing

    def _try(self, what: Callable[[], Any]) -> Any:
        if time.monotonic() < self._retry_at:
            return None
        try:
            return what()
        except Exception as error:
            self._told.clear()
            self._order = None
            self._retry_at = time.monotonic() + RETRY_S
            if not self._warned:
                self._warned = True
                warnings.warn(f"dlcache: the order of {self._url} could not be announced to the "
                              f"daemon, so nothing is fetched ahead: {error}", stacklevel=2)
        return None

    def _open(self) -> dlcache.Dataset:
        if self._handle is None:
            self._handle = dlcache.open(self._url, **self._options)
            if self._join is not None:
                self._join(self._handle)
        return self._handle

    def _begin(self) -> None:
        plan = self._plan
        if plan in self._told and (self._order is not None or not self._computable(plan)):
            self._told = {plan: self._told[plan]}
            if self._order is not None and isinstance(plan, ComputedPlan):
                self._to_its_start(plan)
        elif self._computable(plan):
            self._begin_computed(plan)
        else:
            self._begin_listed(plan)

    def _computable(self, plan: BatchPlan) -> TypeGuard[ComputedPlan]:
        mapping = self._mapping
        return isinstance(plan, ComputedPlan) and plan.start == 0 and not self._targets and (
            mapping is None or isinstance(mapping, range) and mapping.step == 1)

    def _spec(self, plan: ComputedPlan) -> dict[str, Any]:
        order = plan.order
        spec = {"kind": "shuffled" if order.shuffle else "sequential", "seed": order.seed,
                "rank": order.rank, "world": order.world, "drop_last": order.drop_last,
                "first": self._first, "count": order.n}
        return dict(spec, relaxed=True) if self._may_deal(plan) else spec

    @property
    def _first(self) -> int:
        return 0 if self._mapping is None else self._mapping.start

    def _begin_computed(self, plan: ComputedPlan) -> None:
        """The order is announced once; after that, only the epoch."""
        order, epoch = self._spec(plan), plan.order.epoch
        last = max(self._told.values(), default=-2)
        again = plan.dealer is self and self._deals(plan)  # after a failure elsewhere
        resumed = self._may_deal(plan) and (plan.handed or plan.out)
        if not again and (order != self._order or epoch not in (last, last + 1) or resumed):
            self._following = None
            at = self._position(plan, max(plan.handed, plan.fixed))
            self._open().follow(**order, epoch=epoch, position=at, **self._by_hand,
                                **self._resumed(plan, at))
            self._following = order
            self._waited = 0.0
        else:
            self._to_its_start(plan)
        self._order, self._told = order, {plan: epoch}
        self._daemon_epochs[plan] = epoch

    def _to_its_start(self, plan: ComputedPlan) -> None:
        """Dealing begins at the first position: go back if the cursor is past it, because of an
        iteration of the same epoch or because batches were made ahead."""
        if plan.dealer is None and self._deals(plan):
            self._handle.advance(plan.order.epoch, 0)
            self._waited = 0.0

    def _resumed(self, plan: ComputedPlan, first: int) -> dict[str, Any]:
        """Members of a state other than epoch and position."""
        left = sorted(pair for pair in plan.swaps.items() if pair[0] >= first)
        if not left or not self._may_deal(plan):
            return {}
        return {"swaps": (numpy.array(left, numpy.int64) + [0, self._first]).tobytes()}

    def _may_deal(self, plan: ComputedPlan) -> bool:
        return self._relaxed and plan.order.shuffle and plan.dealer is not False

    def _deals(self, plan: ComputedPlan) -> bool:
        return (self._may_deal(plan) and self._handle is not None and self._computable(plan)
                and self._following == self._spec(plan))

    def _take(self, plan: ComputedPlan, first: int, last: int) -> list[int]:
        found = self._handle.take(plan.order.epoch, first, last - first)
        return [sample - self._first for sample in found]

    def _begin_listed(self, plan: BatchPlan) -> None:
        self._order = self._following = None
        self._told = {}
        samples = self._samples(plan)
        if samples is None:
            self._mute = plan
            return
        self._open().follow(samples, epoch=self._next_epoch, targets=self._targets,
                            **self._by_hand,
                            position=self._position(plan, plan.handed))
        self._waited = 0.0
        self._add(plan)

    def _more(self, plan: BatchPlan) -> None:
        samples = self._samples(plan)
        if samples is not None:
            self._open().follow_more(samples, targets=self._targets)
            self._add(plan)

    def _add(self, plan: BatchPlan) -> None:
        self._told[plan] = self._daemon_epochs[plan] = self._next_epoch
        self._next_epoch += 1

    def _position(self, plan: BatchPlan, b: int) -> int:
        return self._each * (plan.length() if b >= plan.count() else plan.before(b))

    def _samples(self, plan: BatchPlan) -> numpy.ndarray | None:
        """The sample numbers of all indices of the plan; None: some index is not one."""
        mapping = self._mapping
        try:
            found = plan.numbers(len(self._open()) if mapping is None else len(mapping))
        except IndexError:  # reading that sample will raise it
            return None
        if found is None or len(found) == 0:
            return None
        if mapping is None:
            return found
        if isinstance(mapping, range):
            return mapping.start + found * mapping.step
        return numpy.asarray(mapping)[found]
