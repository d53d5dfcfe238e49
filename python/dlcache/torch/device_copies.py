# SPDX-License-Identifier: Apache-2.0
"""DeviceCopies: copies batches of a native loader to a device.
"""

from __future__ import annotations

import math
from collections import deque

import torch

import dlcache
from dlcache import _dlcache

__all__ = ["DeviceCopies", "indices_of", "small_of"]


def indices_of(batch: _dlcache.Batch, first: int) -> torch.Tensor:
    """Numbers of its samples, counted from the library's number of sample 0."""
    numbers = torch.frombuffer(batch.index, dtype=torch.int64)
    return numbers.sub_(first) if first else numbers


def small_of(batch: _dlcache.Batch) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Labels, and lengths where there are any."""
    labels = torch.frombuffer(batch.labels, dtype=torch.int64)
    lengths = batch.lengths
    if lengths is None:
        return labels, None
    return labels, torch.frombuffer(lengths, dtype=torch.int32).to(torch.int64)


class DeviceCopies:
    """Copies batches to a device, on a separate stream, from page-locked memory.

    A batch goes back to the ring when the event of its copy has fired. Two copies run while one
    batch is in use, also across the end of an epoch; the ring has space for them and for as many
    that are being made.
    """

    DEPTH = 2

    def __init__(self, device: torch.device, shape: tuple[int, ...], dtype: torch.dtype, ring: int,
                 first: int, epochs: int) -> None:
        """shape: of a batch; ring: batches; first: the library's number of sample 0; epochs: how
        many there will be, 0: no end."""
        self.device, self._first = device, first
        self.ring = [torch.empty(math.prod(shape), dtype=dtype, pin_memory=True)
                     for _ in range(ring)]
        self.buffers = [t.numpy() for t in self.ring]
        self._by_address = {t.data_ptr(): t for t in self.ring}
        self.stream = torch.cuda.Stream(self.device)
        # (place, ..., event) of take(); an error; or where an epoch ends, the number of the next
        self.ahead: deque = deque()
        self._under_way: deque = deque()  # (event, batch)
        self.place = (0, 0)           # before the first of `ahead`
        self.last_epoch: float = epochs - 1 if epochs else math.inf  # that is known

    def drop(self) -> None:
        self.stream.synchronize()
        self.ahead.clear()
        self._under_way.clear()

    def _start(self, batch: _dlcache.Batch) -> tuple:
        host = self._by_address[batch.address][:math.prod(batch.shape)].view(batch.shape)
        labels, lengths = small_of(batch)
        with torch.cuda.stream(self.stream):
            data = host.to(self.device, non_blocking=True)
            labels = labels.pin_memory().to(self.device, non_blocking=True)
            if lengths is not None:
                lengths = lengths.pin_memory().to(self.device, non_blocking=True)
            event = torch.cuda.Event()
            event.record(self.stream)
        self._under_way.append((event, batch))
        return batch.place, indices_of(batch, self._first), data, labels, lengths, event

    def _batches(self) -> int:
        return sum(isinstance(x, tuple) for x in self.ahead)

    def _fill(self, native: _dlcache.Loader) -> None:
        """Start the copies of what is ready. Errors have their turn as batches have."""
        while self._under_way and self._under_way[0][0].query():
            self._under_way.popleft()
        while self._batches() < self.DEPTH and not self._stops():
            if len(self._under_way) > self.DEPTH:
                self._under_way.popleft()[0].synchronize()
            try:
                batch = native.try_next()
            except dlcache.Error as error:
                self.ahead.append(error.with_traceback(None))  # whose frames hold a batch
                return
            if isinstance(batch, bool):  # False: not yet
                return
            self._append(native, batch)

    def _append(self, native: _dlcache.Loader, batch: _dlcache.Batch | None) -> None:
        self.ahead.append(native.tell()[0] if batch is None else self._start(batch))

    def _stops(self) -> bool:
        """Nothing may be taken behind the last one of `ahead`: it raises, or it ends an epoch and
        the next one is not known, or is one too far."""
        last = self.ahead[-1] if self.ahead else None
        if isinstance(last, int):
            return last > self.last_epoch or sum(isinstance(x, int) for x in self.ahead) > 1
        return isinstance(last, Exception)

    def take(self, native: _dlcache.Loader) -> tuple | None:
        """(place, indices, data, labels, lengths), or None at the end of an epoch."""
        if not self.ahead:
            self._append(native, native.next())
        got = self.ahead.popleft()
        if isinstance(got, Exception):
            raise got
        if isinstance(got, int):
            self.place = got, 0
            if got <= self.last_epoch:
                self._fill(native)
            return None
        place, indices, data, labels, lengths, event = got
        self.place = place
        now = torch.cuda.current_stream(self.device)
        now.wait_event(event)
        for t in (data, labels, lengths):
            if t is not None:
                t.record_stream(now)
        del got
        self._fill(native)
        return place, indices, data, labels, lengths
