# SPDX-License-Identifier: Apache-2.0
"""EpochTimes: where the time of each epoch went: load, copy, step.

    load   the loop waited for batches
    copy   batches were copied to the device: those that loader.copy() made. On a GPU the copy's own
           time by CUDA events, which may pass while the step computes
    step   the rest: what the loop did with batches

CopyClock copies and measures. EpochClock adds up.

(TIMES-1) At most ROWS rows are kept, however many epochs there are.
"""
from __future__ import annotations

import dataclasses
import time
from collections import deque
from typing import Any, Dict, List

import torch

__all__ = ["CopyClock", "EpochClock", "EpochTimes"]

ROWS = 500


@dataclasses.dataclass(frozen=True)
class EpochTimes:
    epoch: int      #: counted from 1, as they ended
    load_s: float
    copy_s: float
    step_s: float

    def as_dict(self) -> Dict[str, Any]:
        return dataclasses.asdict(self)


class EpochClock:
    """The times of a loader, in all and of each epoch."""

    def __init__(self) -> None:
        self.rows: List[EpochTimes] = []
        self.copy_s = self.step_s = 0.0
        self._load = self._copy = self._step = 0.0  # of this epoch
        self._ended = 0
        self._every = 1

    def add(self, load_s: float, copy_s: float, host_s: float, step_s: float) -> None:
        """A batch; host_s: the part of step_s in which the loop itself was copying."""
        step_s = max(0.0, step_s - host_s)
        self.copy_s += copy_s
        self.step_s += step_s
        self._load += load_s
        self._copy += copy_s
        self._step += step_s

    def epoch_end(self) -> None:
        self._ended += 1
        if (self._ended - 1) % self._every == 0:
            self.rows.append(EpochTimes(self._ended, self._load, self._copy, self._step))
        if len(self.rows) > ROWS:
            self.rows, self._every = self.rows[::2], self._every * 2
        self._load = self._copy = self._step = 0.0


class CopyClock:
    """Copies batches to a device and measures how long that takes."""

    def __init__(self) -> None:
        self._host_s = self._copy_s = 0.0
        self._events: deque = deque()  # (begin, end, host seconds) of copies on a GPU

    def copy(self, batch: Any, device: Any) -> Any:
        """The batch with its tensors on the device; lists, tuples and dictionaries stay what they are."""
        device = torch.device(device)
        begin = time.perf_counter()
        if device.type == "cuda":
            events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
            events[0].record()
            batch = _moved(batch, device)
            events[1].record()
            self._events.append((*events, time.perf_counter() - begin))
        else:
            batch = _moved(batch, device)
            self._copy_s += time.perf_counter() - begin
        self._host_s += time.perf_counter() - begin
        return batch

    def take(self) -> tuple[float, float]:
        """(seconds of copies, seconds of the loop in them) since the last call."""
        while self._events and self._events[0][1].query():
            begin, end, host_s = self._events.popleft()
            self._copy_s += max(begin.elapsed_time(end) / 1000, host_s)
        taken = self._copy_s, self._host_s
        self._copy_s = self._host_s = 0.0
        return taken


def _moved(batch: Any, device: torch.device) -> Any:
    if isinstance(batch, torch.Tensor):
        return batch.to(device, non_blocking=True)
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(_moved(x, device) for x in batch))
    if isinstance(batch, (list, tuple)):
        return type(batch)(_moved(x, device) for x in batch)
    if isinstance(batch, dict):
        return {key: _moved(x, device) for key, x in batch.items()}
    return batch
