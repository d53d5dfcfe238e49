# SPDX-License-Identifier: Apache-2.0
"""Report: what a loader did, why training waited, and what the data cost.

    ReportBuilder   counts. The loader reports every batch to it, with times: it reads no clock
    Report          the figures at one moment: attributes, as_dict(), JSON, text, a plot

(REPORT-1) Memory is bounded: the series for the plot has at most 2 x POINTS entries, however long
     the run; of bad samples BAD_KEPT are named.
(REPORT-2) samples, waits and bytes of the series add up to those of the report.

The time a user waits for a batch is attributed to these causes:

    start      all of it, for the first batch: processes start, the dataset is opened
    transport  the part that the loader itself spent on the batch after it came: unpacking, pinning
    bucket     of the rest, the share of the making that a worker waited for bytes
    workers    what remains: reading, decoding, transforms, collating

Not here: the progress line (progress.py), the drawing (plot.py), asking the daemon (the loader).
"""
from __future__ import annotations

import dataclasses
import html
import json
import os
from typing import Any, Dict, Iterable, List, Mapping, Optional, Tuple

from dlcache.torch import plot as _plot
from dlcache.torch.epoch_rows import READ_OUTCOMES, EpochRow, EpochRows
from dlcache.torch.epoch_times import EpochClock, EpochTimes
from dlcache.torch.format import count, duration, money, share, size
from dlcache.torch.gpu_monitor import GpuFigures
from dlcache.torch.progress import Progress

__all__ = ["CAUSES", "Point", "Progress", "Report", "ReportBuilder"]

CAUSES = ("start", "bucket", "workers", "transport")
POINTS = 500
MARKS = 500
BAD_KEPT = 1000
SMOOTH = 0.01  # stalled share below which there is nothing to do

_READS = ("hits", "misses", "bypasses", "without_daemon", "bytes")
_WHY_BYTES = {  # the daemon's counter: (its name for people, what to do)
    "stall_latency_ns": (
        "bucket latency",
        "The bucket answers slowly. At the start of a run that is normal; if it lasts, take a "
        "nearer bucket or give the daemon more memory."),
    "stall_bandwidth_ns": (
        "bucket bandwidth",
        "The bucket gives no more bytes. Keep more of the data here: a larger --memory or a disk "
        "tier; or make the objects smaller."),
    "stall_disk_ns": (
        "disk", "The disk tier is slow. Use a faster disk for --dir, or more memory."),
    "stall_memory_ns": (
        "too little memory",
        "There is too little memory to fetch far enough ahead. Start the daemon with a larger "
        "--memory."),
    "stall_client_ns": (
        "no order told",
        "Samples were asked for only when needed. Read them with dlcache.torch.Dataset, or give "
        "your own dataset a source()."),
}


@dataclasses.dataclass
class Point:
    """Some batches in a row, for the plot."""

    begin_s: float
    wall_s: float = 0.0
    samples: int = 0
    workers: float = 0.0  # mean
    batches: int = 0
    waited: Dict[str, float] = dataclasses.field(default_factory=dict)

    def add(self, other: Point) -> None:
        n = self.batches + other.batches
        self.workers = (self.workers * self.batches + other.workers * other.batches) / n
        self.wall_s += other.wall_s
        self.samples += other.samples
        self.batches = n
        for cause, seconds in other.waited.items():
            self.waited[cause] = self.waited.get(cause, 0.0) + seconds


class _Series:
    """Points of equally many batches; when there are too many, neighbours become one."""

    def __init__(self) -> None:
        self.points: List[Point] = []
        self._each = 1

    def add(self, point: Point) -> None:
        if self.points and self.points[-1].batches < self._each:
            self.points[-1].add(point)
            return
        if len(self.points) >= 2 * POINTS:
            for a, b in zip(self.points[::2], self.points[1::2]):
                a.add(b)
            self.points = self.points[::2]
            self._each *= 2
        self.points.append(point)

    def copy(self) -> List[Point]:
        return [dataclasses.replace(p, waited=dict(p.waited)) for p in self.points]


class _Marks:
    """Where epochs ended; every second one is forgotten when there are too many."""

    def __init__(self) -> None:
        self.at: List[Tuple[float, int]] = []
        self._every = 1

    def add(self, wall_s: float, number: int) -> None:
        if number % self._every == 0:
            self.at.append((wall_s, number))
        if len(self.at) > MARKS:
            self._every *= 2
            self.at = [m for m in self.at if m[1] % self._every == 0]


class ReportBuilder:
    """Collects the figures of a loader, batch by batch."""

    def __init__(self) -> None:
        self.samples = self.batches = self.epochs = 0
        self.wall_s = self.waited_s = self.busy_s = self.cpu_s = self.made_samples = 0.0
        self.causes = dict.fromkeys(CAUSES, 0.0)
        self.reads = dict.fromkeys(_READS, 0)
        self.workers_now = self.workers_most = 0
        self.skipped = self.replaced = 0
        self.bad: List[Any] = []
        self._series, self._marks, self.rows = _Series(), _Marks(), EpochRows()
        self.clock = EpochClock()
        self._began_s = 0.0  # of the epoch

    def batch(self, samples: int, waited_s: float, step_s: float, workers: int,
              cause: Optional[str] = None, stats: Optional[Mapping[str, Any]] = None,
              errors: Optional[Mapping[str, Any]] = None, *, busy_s: float = 0.0,
              cpu_s: float = 0.0, transport_s: float = 0.0,
              copied_s: Tuple[float, float] = (0.0, 0.0)) -> None:
        """A batch was handed to the user.

        Args:
            samples: In it.
            waited_s: How long the user waited for it.
            step_s: How long the user had taken before asking for it.
            workers: How many there are.
            cause: Of the wait, if the loader knows better than the rule above.
            stats: What its worker counted: hits, misses, bypasses, without_daemon, bytes, stall_s
                (waiting for bytes), errors (as below).
            errors: Samples that were forgiven: {"skipped": n, "replaced": n, "bad": [...]}.
            busy_s, cpu_s: Time and CPU time of its worker for it.
            transport_s: Part of waited_s that the loader spent on it after it came.
            copied_s: What CopyClock.take() says of the step before it.
        """
        stats = stats or {}
        waits = self._blame(waited_s, cause, stats.get("stall_s", 0.0), busy_s, transport_s)
        for name, seconds in waits.items():
            self.causes[name] = self.causes.get(name, 0.0) + seconds
        self._series.add(Point(self.wall_s, waited_s + step_s, samples, workers, 1, waits))
        self.samples += samples
        self.batches += 1
        self.wall_s += waited_s + step_s
        self.waited_s += waited_s
        self.clock.add(waited_s, *copied_s, step_s)
        if busy_s > 0:
            self.busy_s += busy_s
            self.cpu_s += cpu_s
            self.made_samples += samples
        self.workers_now = workers
        self.workers_most = max(self.workers_most, workers)
        for name in _READS:
            self.reads[name] += stats.get(name, 0)
        self._forgiven(errors or stats.get("errors"))

    def epoch_end(self, row: Optional[EpochRow] = None, stats: Optional[Mapping[str, Any]] = None,
                  daemon_epoch: Optional[int] = None, step_s: float = 0.0,
                  copied_s: Tuple[float, float] = (0.0, 0.0)) -> None:
        """The last batch of an epoch was handed out.

        Args:
            row: What it has seen, if that is known.
            stats: What daemon_stats() says.
            daemon_epoch: The number of this epoch in the daemon.
            step_s, copied_s: Of the step after the last batch.
        """
        self.clock.add(0.0, *copied_s, step_s)
        self.clock.epoch_end()
        self.epochs += 1
        self._marks.add(self.wall_s, self.epochs)
        if row is not None:
            times = {"begin_s": self._began_s, "end_s": self.wall_s}
            self.rows.add(dataclasses.replace(row, **times), stats, daemon_epoch)
        self._began_s = self.wall_s

    def report(self, daemon: Iterable[Tuple[Mapping, Mapping]] = (),
               gpus: Iterable[GpuFigures] = ()) -> Report:
        """The figures now.

        Args:
            daemon: For each dataset read, what daemon_stats() said at the beginning and says now.
            gpus: What GpuMonitor.figures() says.
        """
        figures = _bucket_figures(daemon)
        return Report(
            samples=self.samples, batches=self.batches, epochs=self.epochs, wall_s=self.wall_s,
            waited_s=self.waited_s, cause=_shares(self.causes), hits=self.reads["hits"],
            misses=self.reads["misses"], bypasses=self.reads["bypasses"],
            without_daemon=self.reads["without_daemon"], read_bytes=self.reads["bytes"],
            requests=figures["bucket_requests"],
            bytes=figures["bucket_bytes"], money_usd=figures["money_nano"] / 1e9,
            why_bytes=_shares({w: figures[name] for name, (w, _) in _WHY_BYTES.items()}),
            workers=self.workers_now, workers_most=self.workers_most,
            sample_s=self.busy_s / self.made_samples if self.made_samples else 0.0,
            cpu_share=min(1.0, self.cpu_s / self.busy_s) if self.busy_s else 0.0,
            skipped=self.skipped, replaced=self.replaced, bad=list(self.bad),
            copy_s=self.clock.copy_s, step_s=self.clock.step_s, gpus=list(gpus),
            reads=dict(self.rows.reads), by_epoch=list(self.rows.rows),
            times=list(self.clock.rows),
            series=self._series.copy(), marks=list(self._marks.at))

    def _blame(self, waited: float, cause: Optional[str], stall: float, busy: float,
               transport: float) -> Dict[str, float]:
        """{cause: seconds} of one wait."""
        if waited <= 0:
            return {}
        if cause is None and self.batches == 0:
            cause = "start"
        if cause is not None:
            return {cause: waited}
        moving = min(waited, max(0.0, transport))
        bucket = (waited - moving) * (min(1.0, max(0.0, stall / busy)) if busy > 0 else 0.0)
        parts = {"bucket": bucket, "workers": waited - moving - bucket, "transport": moving}
        return {name: seconds for name, seconds in parts.items() if seconds > 0}

    def _forgiven(self, errors: Optional[Mapping[str, Any]]) -> None:
        if not errors:
            return
        self.skipped += errors.get("skipped", 0)
        self.replaced += errors.get("replaced", 0)
        self.bad.extend(list(errors.get("bad", ()))[:BAD_KEPT - len(self.bad)])


@dataclasses.dataclass(frozen=True)
class Report:
    """What a loader did so far. Times are seconds; `series` and `marks` are what plot() draws."""

    samples: int
    batches: int
    epochs: int
    wall_s: float
    waited_s: float
    cause: Dict[str, float]  # of waited_s: shares that add up to 1
    hits: int
    misses: int
    bypasses: int
    without_daemon: int  # of the bypasses
    read_bytes: int
    requests: int
    bytes: int        # from the bucket
    money_usd: float
    why_bytes: Dict[str, float]  # why the daemon let readers wait: shares
    workers: int
    workers_most: int
    sample_s: float   # time of a worker for one sample
    cpu_share: float  # of that time; threads beside the worker's own may fill what it waits
    skipped: int
    replaced: int
    bad: List[Any]
    reads: Dict[str, int]  # samples by outcome: "reuse", "prefetch", "waited" (epoch_rows.py)
    copy_s: float = 0.0  # copying batches to the device: loader.copy()
    step_s: float = 0.0  # in the loop, neither waiting nor copying
    gpus: List[GpuFigures] = dataclasses.field(default_factory=list)  # none without NVML
    by_epoch: List[EpochRow] = dataclasses.field(repr=False, default_factory=list)
    times: List[EpochTimes] = dataclasses.field(repr=False, default_factory=list)  # by epoch
    series: List[Point] = dataclasses.field(repr=False, default_factory=list)
    marks: List[Tuple[float, int]] = dataclasses.field(repr=False, default_factory=list)

    @property
    def samples_per_s(self) -> float:
        return self.samples / self.wall_s if self.wall_s > 0 else 0.0

    @property
    def stalled_share(self) -> float:
        return self.waited_s / self.wall_s if self.wall_s > 0 else 0.0

    @property
    def hit_share(self) -> float:
        reads = self.hits + self.misses + self.bypasses
        return self.hits / reads if reads else 0.0

    @property
    def errors(self) -> Dict[str, Any]:
        return {"skipped": self.skipped, "replaced": self.replaced, "bad": self.bad}

    def advice(self) -> str:
        """What to do about the largest cause of waiting; "" if nothing has to be done."""
        steady = {c: s for c, s in self.cause.items() if c != "start"}
        worst = max(steady, key=steady.__getitem__, default="")
        if self.stalled_share * steady.get(worst, 0.0) < SMOOTH:
            return ""
        text: str = getattr(self, "_advice_" + worst, str)()
        if self.cause.get("start", 0.0) > steady[worst]:
            text = (f"The start of the run took {share(self.cause['start'])} of the wait, which "
                    f"counts less the longer it runs; `dlcache warm` before it helps. Then: {text}")
        return text

    def as_dict(self) -> Dict[str, Any]:
        left = ("series", "marks", "by_epoch", "times", "gpus")
        names = [f.name for f in dataclasses.fields(self) if f.name not in left]
        figures = {name: getattr(self, name) for name in names}
        for name in ("by_epoch", "times", "gpus"):
            figures[name] = [row.as_dict() for row in getattr(self, name)]
        more = ("samples_per_s", "stalled_share", "hit_share")
        return {**figures, **{name: getattr(self, name) for name in more}, "advice": self.advice()}

    def json(self) -> str:
        return json.dumps(self.as_dict(), default=str)

    def plot(self, path: str | os.PathLike) -> None:
        """Write samples/s, stalled share and number of workers over time as an SVG file."""
        path = os.fspath(path)
        if not path.lower().endswith(".svg"):
            raise ValueError(f"plot({path!r}): only SVG is written; name the file *.svg. Browsers "
                             "show it, and rsvg-convert or Inkscape make a PNG of it")
        text = _plot.svg(self)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)

    def __str__(self) -> str:
        rows = [f"  {name:<9} {text}" for name, text in self._rows()]
        return "\n".join([self._title(), *rows])

    def _repr_html_(self) -> str:
        rows = "".join(f"<tr><th style='text-align:left'>{name}</th>"
                       f"<td style='text-align:left'>{html.escape(text)}</td></tr>"
                       for name, text in self._rows())
        picture = _plot.svg(self) if self.series else ""
        return f"<b>{html.escape(self._title())}</b><table>{rows}</table>{picture}"

    def _title(self) -> str:
        epochs = f", {count(self.epochs)} epoch{'s' if self.epochs != 1 else ''}"
        return (f"dlcache: {count(self.samples)} samples in {duration(self.wall_s)}, "
                f"{count(self.samples_per_s)} samples/s{epochs if self.epochs else ''}")

    def _rows(self) -> List[Tuple[str, str]]:
        rows = [("stalled", self._stalled_text())]
        reads = self.hits + self.misses + self.bypasses
        if reads:
            rows.append(("cache", f"{share(self.hit_share)} hits of {count(reads)} reads, "
                                  f"{size(self.read_bytes)}"))
        if self.without_daemon:
            rows.append(("daemon", f"none answered for {count(self.without_daemon)} reads, which went to the "
                                   "bucket; workers look for one again every 30 s at last"))
        if sum(self.reads.values()):
            rows.append(("reuse", self._whence_text()))
        if self.by_epoch and self.by_epoch[-1].effective is not None:
            rows.append(("seen", self.by_epoch[-1].text()))
        rows.append(("bucket", f"{count(self.requests)} requests, {size(self.bytes)}, "
                               f"{money(self.money_usd)}"))
        rows.append(("workers", self._workers_text()))
        if self.copy_s > 0:
            rows.append(("time", f"load {duration(self.waited_s)}, copy {duration(self.copy_s)}, "
                                 f"step {duration(self.step_s)}"))
        rows += [(f"GPU {g.index}", g.text().split(": ", 1)[1]) for g in self.gpus]
        if self.skipped or self.replaced:
            first = f"; first: {self.bad[0]}" if self.bad else ""
            rows.append(("bad", f"{count(self.skipped)} samples skipped, "
                                f"{count(self.replaced)} replaced{first}"))
        if self.advice():
            rows.append(("to do", self.advice()))
        return rows

    def _stalled_text(self) -> str:
        if self.waited_s <= 0:
            return "never: the training step is the limit"
        causes = sorted(self.cause.items(), key=lambda c: -c[1])
        parts = ", ".join(f"{name} {share(s)}" for name, s in causes if s >= 0.005)
        text = f"{share(self.stalled_share)}, {duration(self.waited_s)}: {parts}"
        return text if self.stalled_share >= SMOOTH else text + "; the training step is the limit"

    def _whence_text(self) -> str:
        total = sum(self.reads.values())
        reuse, ahead, waited = (share(self.reads[name] / total) for name in READ_OUTCOMES)
        return (f"{reuse} of the samples were in memory since they were used before, {ahead} were "
                f"fetched ahead, {waited} waited for")

    def _workers_text(self) -> str:
        now = f"{self.workers} now, {self.workers_most} at most"
        if self.workers_most == 0:
            now = "none: batches are made in the training process"
        if self.sample_s <= 0:
            return now
        return (f"{now}; {self.sample_s * 1e3:.3g} ms for a sample, "
                f"{share(self.cpu_share)} of it CPU")

    def _advice_bucket(self) -> str:
        if not any(self.why_bytes.values()):
            return ("Workers wait for bytes. See `dlcache stat` for the reason; more memory for "
                    "the daemon helps most often.")
        why = max(self.why_bytes, key=self.why_bytes.__getitem__)
        return next(text for name, text in _WHY_BYTES.values() if name == why)

    def _advice_workers(self) -> str:
        if self.workers_most == 0:
            return "Batches are made by the training process itself: use num_workers=\"auto\"."
        return (f"Making a sample takes {self.sample_s * 1e3:.3g} ms of a worker and all are busy: "
                "more cores, a cheaper transform, or smaller images in the bucket.")

    def _advice_transport(self) -> str:
        return ("Batches are large for what is computed on them: let workers send uint8 and "
                "convert on the GPU, or try without pin_memory.")


def _shares(seconds: Mapping[str, float]) -> Dict[str, float]:
    total = sum(seconds.values())
    return {name: s / total for name, s in seconds.items()} if total > 0 else {}


def _counters(stats: Mapping[str, Any]) -> Mapping[str, Any]:
    """Those of the dataset, or the whole daemon's where it does not tell them apart."""
    return (stats.get("dataset") or {}).get("counters") or stats.get("counters") or {}


def _bucket_figures(daemon: Iterable[Tuple[Mapping, Mapping]]) -> Dict[str, int]:
    """Sums of what the counters grew; a daemon that was started again counts from 0."""
    names = ("bucket_requests", "bucket_bytes", "money_nano", *_WHY_BYTES)
    total = dict.fromkeys(names, 0)
    for before, now in daemon:
        if not before:  # the daemon did not answer then: what is ours is not known
            continue
        same = _pid(before) == _pid(now)
        old, new = _counters(before) if same else {}, _counters(now)
        for name in names:
            total[name] += max(0, new.get(name, 0) - old.get(name, 0))
    return total


def _pid(stats: Mapping[str, Any]) -> Any:
    return (stats.get("daemon") or {}).get("pid")
