# SPDX-License-Identifier: Apache-2.0
"""EpochRow: the figures of one epoch of a loader: samples seen, where reads were served from, cost.

    seen       number of different samples, and their share of the dataset
    outcomes   reuse: in memory because of an earlier use; prefetch: fetched before it was asked
               for; waited: the reader waited for it. The daemon counts them as cursors pass
    cost       samples fetched from the bucket per different sample. Other readers fetch too
               (validation, other jobs): fetches are counted up to the number of reads that were
               not reuse

(ROWS-1) At most ROWS rows are kept, however many epochs there are; the totals include all.
"""
from __future__ import annotations

import dataclasses
from typing import Any, Dict, List, Mapping, Optional

from dlcache.torch.format import count, share

__all__ = ["EpochRow", "EpochRows", "read_outcomes"]

ROWS = 500
READ_OUTCOMES = ("reuse", "prefetch", "waited")


@dataclasses.dataclass(frozen=True)
class EpochRow:
    epoch: int
    begin_s: float
    end_s: float
    positions: int    #: samples of the epoch, of this rank
    distinct: int     #: different ones among them
    coverage: float   #: share of the dataset, or of this rank's part of it
    effective: Optional[float] = None  #: how many samples of equal weight would be drawn as widely
    ignored: int = 0  #: losses that were not finite numbers
    reuse: int = 0
    prefetch: int = 0
    waited: int = 0
    fetched: int = 0  #: samples that came from the bucket for it

    @property
    def hit_share(self) -> float:
        reads = self.reuse + self.prefetch + self.waited
        return (self.reuse + self.prefetch) / reads if reads else 0.0

    @property
    def reuse_share(self) -> float:
        reads = self.reuse + self.prefetch + self.waited
        return self.reuse / reads if reads else 0.0

    @property
    def reads_per_distinct(self) -> float:
        """Bucket reads for each different sample."""
        return self.fetched / self.distinct if self.distinct else 0.0

    def text(self) -> str:
        """Samples seen, and where reads were served from."""
        seen = (f"epoch {self.epoch}: {share(self.coverage)} of the samples, "
                f"{count(self.distinct)} in {count(self.positions)} positions")
        if self.effective is not None:
            seen += f", drawn as from {count(round(self.effective))} of equal weight"
        if self.ignored:
            seen += f"; {count(self.ignored)} losses were not finite numbers"
        reads = self.reuse + self.prefetch + self.waited
        if not reads:
            return seen
        reuse, ahead, waited = (share(n / reads) for n in (self.reuse, self.prefetch, self.waited))
        return (f"{seen}; {reuse} reused, {ahead} fetched ahead, {waited} waited for; "
                f"{self.reads_per_distinct:.2f} bucket reads for each different one")

    def as_dict(self) -> Dict[str, Any]:
        more = ("hit_share", "reuse_share", "reads_per_distinct")
        return {**dataclasses.asdict(self), **{name: getattr(self, name) for name in more}}


class EpochRows:
    """Those of a loader; every second one is forgotten when there are too many."""

    def __init__(self) -> None:
        self.rows: List[EpochRow] = []
        self.reads = dict.fromkeys(READ_OUTCOMES, 0)
        self._every, self._seen = 1, 0
        self._fetched: Optional[int] = None  # as the daemon said last
        self._spare = 0  # fetched, and not counted for an epoch yet: what comes ahead is early

    def begin(self, stats: Optional[Mapping[str, Any]]) -> None:
        """What the daemon says before the first epoch."""
        if self._fetched is None:
            self._fetched = _fetched(stats)

    def add(self, row: EpochRow, stats: Optional[Mapping[str, Any]],
            daemon_epoch: Optional[int]) -> None:
        """An epoch has ended; with what the daemon says, and how it calls this epoch."""
        now, found = _fetched(stats), read_outcomes(stats, daemon_epoch)
        if now is not None:
            before = self._fetched or 0
            self._spare += now - before if now >= before else now  # a new daemon counts from 0
            self._fetched = now
        fetched = min(self._spare, found["prefetch"] + found["waited"])
        self._spare -= fetched
        row = dataclasses.replace(row, fetched=fetched, **found)
        for name in READ_OUTCOMES:
            self.reads[name] += found[name]
        if self._seen % self._every == 0:
            self.rows.append(row)
        self._seen += 1
        if len(self.rows) > ROWS:
            self.rows, self._every = self.rows[::2], self._every * 2


def _fetched(stats: Optional[Mapping[str, Any]]) -> Optional[int]:
    return ((stats or {}).get("dataset") or {}).get("fetched")


def read_outcomes(stats: Optional[Mapping[str, Any]],
                  daemon_epoch: Optional[int]) -> Dict[str, int]:
    """Of one epoch of the session that asks."""
    epochs = ((stats or {}).get("dataset") or {}).get("epochs") or []
    found: Mapping[str, int] = next((e for e in epochs if e.get("epoch") == daemon_epoch), {})
    return {name: found.get(name, 0) for name in READ_OUTCOMES}
