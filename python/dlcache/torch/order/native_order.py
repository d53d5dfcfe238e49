# SPDX-License-Identifier: Apache-2.0
"""NativeOrder: the order of a Python sampler, as lists for a native loader, epoch by epoch.

The training process captures the sampler one epoch at a time, with the same EpochState as
DataLoader: ahead of time and unnoticed, or, if the sampler learns (`dlcache_late`), when little of
the epoch is left.

    begin()           list of this epoch            Loader.follow() of the extension, unless known
    ahead()           list of the next, in time     Loader.follow_more()
"""

from __future__ import annotations

from typing import Any

import numpy

from dlcache.torch.order.batch_plans import BatchPlan
from dlcache.torch.order.epoch_state import EpochState

__all__ = ["NativeOrder"]


class NativeOrder:
    """The plans of a loader with a sampler.

    Args:
        sampler: Gives numbers of samples; asked once for each epoch.
        seed: Of what it draws from torch's, numpy's and Python's own generators.
        epochs: How many there will be; 0: no end.
        epoch: The first one.
    """

    def __init__(self, sampler: Any, seed: int, epochs: int = 0, epoch: int = 0) -> None:
        if not hasattr(sampler, "__iter__"):
            raise TypeError(f"sampler={sampler!r}: give a torch Sampler, or anything that can be "
                            "iterated again for each epoch")
        self.sampler = sampler
        self._made_with = (sampler, seed, epochs, epoch)
        self._epoch_state = EpochState(sampler, seed=seed, epoch=epoch, epochs=epochs or None)
        self.plan: BatchPlan | None = None  # of the latest iteration
        self._asked = False            # for the one after it

    def __reduce__(self) -> tuple:
        return NativeOrder, self._made_with

    @property
    def once(self) -> bool:
        """Each sample comes once in an epoch, on one rank."""
        return self._epoch_state.kind != "other"

    def __len__(self) -> int:
        """Samples of the epoch that is iterated, or of the next one as far as the sampler says."""
        if self.plan is not None and not self.plan.finished:
            return self.plan.length()
        return len(self.sampler)

    def begin(self) -> BatchPlan:
        """An iteration begins; the first `handed` samples of its plan were read before."""
        plan = self._epoch_state.begin()
        if plan.count() is None or plan.indices() is None:
            name = type(self.sampler).__name__
            raise TypeError(f"{name} says more than its len() or other things than numbers: give "
                            "one that ends, or take dlcache.torch.DataLoader")
        self.plan, self._asked = plan, False
        return plan

    def ahead(self, made: int) -> BatchPlan | None:
        """With so many samples of this epoch made or being made: the plan of the next one, once,
        when it is time to say it."""
        if self._asked or not self._epoch_state.due(self.plan, min(made, self.plan.count())):
            return None
        self._asked = True
        plan = self._epoch_state.ahead()
        return plan if plan is not None and plan.indices() is not None else None

    @staticmethod
    def numbers(plan: BatchPlan, first: int, count: int | None) -> numpy.ndarray:
        """What the plan says, of `count` samples from number `first` on; None: who knows."""
        found = plan.indices() if count is None else plan.numbers(count)
        return numpy.asarray(found, numpy.int64) + first

    def set_epoch(self, epoch: int) -> None:
        self._epoch_state.set_epoch(epoch)
        self.plan = None

    def state_dict(self) -> dict[str, Any]:
        return self._epoch_state.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._epoch_state.load_state_dict(state)
        self.plan = None
