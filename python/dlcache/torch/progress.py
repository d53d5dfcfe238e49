# SPDX-License-Identifier: Apache-2.0
"""Progress: one line on stderr about a loader that runs.

On a terminal the line is written over itself, at most REDRAWS times a second; elsewhere (a log
file) a new line comes every LOG_S seconds and at the end. Figures cover the last SPAN_S seconds.

    progress = Progress()
    if progress.due():
        progress.show(builder, epoch, position, length, money_usd)
    progress.end_line()                       # of an epoch: what others print begins a new line
    progress.close()

(PROGRESS-1) A line is shorter than the terminal is wide: parts that do not fit are left out, in
     the order of LEAST_FIRST.
(PROGRESS-2) After close() nothing is written. A stream that fails is not written to again, and
     nothing is raised.
"""
from __future__ import annotations

import collections
import os
import sys
import time
from typing import Any, Callable, Deque, List, Optional, TextIO, Tuple

from dlcache.torch.format import clock as clock_text
from dlcache.torch.format import count, money, share

__all__ = ["Progress"]

REDRAWS = 5
LOG_S = 30.0
SPAN_S = 10.0
# The parts of the line, and the order in which they are given up when the terminal is narrow.
PARTS = ("epoch", "percent", "rate", "stalled", "hits", "workers", "money", "eta")
LEAST_FIRST = ("money", "hits", "workers", "stalled", "epoch", "eta", "percent")


class Progress:
    """One line on stderr.

    Args:
        stream: Where to; sys.stderr if None.
        clock: Seconds that only grow.
        columns: Width of the terminal; asked for if None.
    """

    def __init__(self, stream: Optional[TextIO] = None, *,
                 clock: Callable[[], float] = time.monotonic,
                 columns: Optional[int] = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._clock, self._columns = clock, columns
        self._terminal = _is_terminal(self._stream)
        self._every = 1 / REDRAWS if self._terminal else LOG_S
        self._next = clock() + (0 if self._terminal else LOG_S)
        self._seen: Deque[Tuple[float, Any]] = collections.deque(maxlen=int(SPAN_S * REDRAWS) + 1)
        self._last, self._drawn, self._pid = "", 0, os.getpid()
        self._closed = self._stream is None

    def due(self) -> bool:
        """Whether show() would write now: asking is cheap."""
        return not self._closed and self._clock() >= self._next

    def show(self, builder: Any, epoch: int, position: int, length: int,
             money_usd: float = 0.0) -> None:
        """Write the line, if it is time.

        Args:
            builder: A ReportBuilder.
            epoch: The number of this epoch, from 0.
            position, length: Samples of it handed out, and in all (0: unknown).
        """
        now = self._clock()
        figures = (builder.samples, builder.waited_s, builder.wall_s, builder.reads["hits"],
                   sum(builder.reads[n] for n in ("hits", "misses", "bypasses")),
                   dict(builder.causes))
        parts = self._parts(now, figures, builder.workers_now, epoch, position, length, money_usd)
        self._last = _fit(parts, self._width())
        if not self.due():
            return
        self._seen.append((now, figures))
        while len(self._seen) > 2 and now - self._seen[0][0] > SPAN_S:
            self._seen.popleft()
        self._next = now + self._every
        self._write(self._last)

    def end_line(self) -> None:
        """On a terminal, leave the line as it is now, and go on below it."""
        if self._terminal and self._drawn and not self._closed and os.getpid() == self._pid:
            self._write(self._last, end="\n")
            self._drawn, self._last = 0, ""

    def close(self) -> None:
        """End the line. Again: nothing."""
        if self._closed:
            return
        if self._last and (self._drawn or not self._terminal) and os.getpid() == self._pid:
            self._write(self._last, end="\n")
        self._closed = True

    def _parts(self, now: float, figures: tuple, workers: int, epoch: int, position: int,
               length: int, usd: float) -> dict:
        begin, old = self._seen[0] if self._seen else (now, (0, 0.0, 0.0, 0, 0, {}))
        samples, waited, wall, hits, reads = (new - was for new, was in zip(figures[:5], old[:5]))
        seconds = now - begin if now > begin else wall
        rate = samples / seconds if seconds > 0 else 0.0
        stalled = f"stalled {share(min(1.0, waited / wall) if wall > 0 else 0.0)}"
        waits = {c: s - old[5].get(c, 0.0) for c, s in figures[5].items()}
        if wall > 0 and waited / wall >= 0.001 and any(s > 0 for s in waits.values()):
            stalled += f" ({max(waits, key=waits.__getitem__)})"
        parts = {"epoch": f"epoch {epoch}", "rate": f"{count(round(rate, 1))} samples/s",
                 "stalled": stalled, "workers": f"workers {workers}"}
        if length > 0:
            parts["percent"] = f"{100 * min(position, length) // length} %"
            if rate > 0:
                parts["eta"] = f"eta {clock_text(max(0, length - position) / rate)}"
        if reads > 0:
            parts["hits"] = f"hits {share(hits / reads)}"
        if usd > 0:
            parts["money"] = money(usd)
        return parts

    def _width(self) -> int:
        if not self._terminal:
            return 1000
        if self._columns is not None:
            return self._columns
        try:
            return os.get_terminal_size(self._stream.fileno()).columns or 80
        except (OSError, ValueError, AttributeError):
            return 80

    def _write(self, line: str, end: str = "") -> None:
        """Over the line before it on a terminal, with blanks over what stood there."""
        if self._terminal:
            text = "\r" + line.ljust(min(self._drawn, self._width() - 1)) + end
        else:
            text = line + "\n"
        self._drawn = len(line)
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):
            self._closed = True


def _is_terminal(stream: Any) -> bool:
    try:
        return bool(stream.isatty())
    except (AttributeError, ValueError):
        return False


def _fit(parts: dict, width: int) -> str:
    """The line, with parts left out until it fits; one column stays free, or terminals wrap."""
    left: List[str] = [name for name in PARTS if name in parts]
    for name in (*LEAST_FIRST, None):
        line = "  ".join(parts[n] for n in left)
        if len(line) < width or name is None:
            break
        if name in left:
            left.remove(name)
    return line[:max(0, width - 1)]
