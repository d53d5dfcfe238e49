# SPDX-License-Identifier: Apache-2.0
"""Lists: what a sampler says to a native loader, one epoch after the other.

The sampler is drained in the training process, an epoch at a time, by the same Epochs as those of
DataLoader: what it says is looked ahead without its noticing, or, if it learns (`dlcache_late`),
asked for when little of the epoch is left.

    begin()           this epoch's list           Loader.follow() of the library, if it is not there
    ahead()           the next one's, in time     Loader.follow_more()
"""

from __future__ import annotations

from typing import Any

import numpy

from dlcache.torch.order.batch_plans import Plan
from dlcache.torch.order.epoch_state import Epochs

__all__ = ["Lists"]


class Lists:
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
                            "iterated anew for each epoch")
        self.sampler = sampler
        self._made_with = (sampler, seed, epochs, epoch)
        self._epochs = Epochs(sampler, seed=seed, epoch=epoch, epochs=epochs or None)
        self.plan: Plan | None = None  # of the latest iteration
        self._asked = False            # for the one after it

    def __reduce__(self) -> tuple:
        return Lists, self._made_with

    @property
    def once(self) -> bool:
        """Each sample comes once in an epoch, on one rank."""
        return self._epochs.kind != "other"

    def __len__(self) -> int:
        """Samples of the epoch that is iterated, or of the next one as far as the sampler says."""
        if self.plan is not None and not self.plan.finished:
            return self.plan.length()
        return len(self.sampler)

    def begin(self) -> Plan:
        """An iteration begins; `handed` of its plan samples are behind it already."""
        plan = self._epochs.begin()
        if plan.count() is None or plan.indices() is None:
            name = type(self.sampler).__name__
            raise TypeError(f"{name} says more than its len() or other things than numbers: give "
                            "one that ends, or take dlcache.torch.DataLoader")
        self.plan, self._asked = plan, False
        return plan

    def ahead(self, made: int) -> Plan | None:
        """With so many samples of this epoch made or being made: the plan of the next one, once,
        when it is time to say it."""
        if self._asked or not self._epochs.due(self.plan, min(made, self.plan.count())):
            return None
        self._asked = True
        plan = self._epochs.ahead()
        return plan if plan is not None and plan.indices() is not None else None

    @staticmethod
    def numbers(plan: Plan, first: int, count: int | None) -> numpy.ndarray:
        """What the plan says, of `count` samples from number `first` on; None: who knows."""
        found = plan.indices() if count is None else plan.numbers(count)
        return numpy.asarray(found, numpy.int64) + first

    def set_epoch(self, epoch: int) -> None:
        self._epochs.set_epoch(epoch)
        self.plan = None

    def state_dict(self) -> dict[str, Any]:
        return self._epochs.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._epochs.load_state_dict(state)
        self.plan = None
