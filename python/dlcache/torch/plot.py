# SPDX-License-Identifier: Apache-2.0
"""A report as a picture: panels over one time axis, written as SVG.

    samples/s          how fast
    stalled            share of the time that training waited, by cause, stacked
    workers            how many
    epochs             with a sampler that draws by weight: the share of the samples that each epoch
                       saw, and of its reads those in memory, of which before somebody fetched them

Epochs are marked by thin lines. The picture brings its background, light or dark as the reader's
browser prefers. No library is needed to draw it, and nothing in it is fetched from anywhere.
"""
from __future__ import annotations

import html
import math
from typing import Any, Callable, List, Mapping, NamedTuple, Sequence, Tuple

from dlcache.torch.format import clock, count, share

__all__ = ["curves", "lines", "svg"]

WIDTH, HEIGHT = 900.0, 600.0
LEFT, RIGHT, TOP = 78.0, 136.0, 112.0
PANELS = ((TOP, 170.0), (TOP + 214, 120.0), (TOP + 378, 62.0), (TOP + 486, 100.0))  # top, height
MORE = 144.0   # height of the picture for the last one
COLUMNS = 120  # bursts of batches are not what one wants to see
LABELS = 14    # most epochs that are named
KEY = 36       # from one name at the right edge to the next
FONT = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif"
# Told apart by people who see colours differently, too.
COLOURS = {"start": "#8a939e", "bucket": "#d55e00", "workers": "#e69f00", "transport": "#cc79a7"}
LINES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7a5195", "#8c6d31",
         "#b33a3a", "#4c9f70", "#6b6ecf", "#8a939e")
STYLE = """
text { font-family: %s; font-size: 12.5px; fill: #1b1f24 }
.faint { fill: #667180 } .title { font-size: 18px; font-weight: 600 } .name { font-weight: 600 }
.card { fill: #ffffff } .rule { stroke: #e4e8ed } .mark { stroke: #aab3bd; stroke-dasharray: 2 3 }
.rate { stroke: #0072b2; fill: none; stroke-width: 2 } .ratefill { fill: #0072b2; opacity: .12 }
.count { stroke: #009e73; fill: none; stroke-width: 2 } .countfill { fill: #009e73; opacity: .12 }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .faint { fill: #9aa5b1 } .card { fill: #14181d } .rule { stroke: #2b323a }
.mark { stroke: #5b6570 } .rate { stroke: #56b4e9 } .ratefill { fill: #56b4e9; opacity: .18 }
.count { stroke: #2ec79b } .countfill { fill: #2ec79b; opacity: .18 }
}
""" % FONT


def svg(report: Any) -> str:
    """The text of an SVG file about a Report."""
    columns = _columns(report.series)
    end = max([p.begin_s + p.wall_s for p in columns] + [1e-9])
    x = _Axis(0.0, end, LEFT, WIDTH - RIGHT)
    drawn = any(row.effective is not None for row in report.by_epoch)
    top, height = PANELS[3 if drawn else 2]
    out = _head(_title(report), _subtitle(report), HEIGHT + (MORE if drawn else 0.0))
    out += _marks(report.marks, x, top + height)
    out += _rate_panel(columns, x)
    out += _stall_panel(columns, report.cause, x)
    out += _worker_panel(columns, x)
    if drawn:
        out += _epoch_panel(report.by_epoch, x)
    out += _time_axis(x, top + height)
    return "\n".join(out + ["</svg>", ""])


def lines(title: str, subtitle: str, shares: Mapping[str, Sequence[float]]) -> str:
    """The text of an SVG file with some shares (0 to 1) by epoch, a line for each name."""
    n = max([len(values) for values in shares.values()] + [1])
    return curves(title, subtitle, shares, [(i, str(i)) for i in range(1, n + 1)], "epoch")


def curves(title: str, subtitle: str, values_of: Mapping[str, Sequence[float]],
           ticks: Sequence[Tuple[float, str]], x_name: str, y_name: str = "",
           shares: bool = True) -> str:
    """The text of an SVG file with a line for each name, over ticks: (position, text)."""
    highest = max([v for values in values_of.values() for v in values] + [1.0 if shares else 1e-9])
    step, number = (0.2, _percent) if shares else (_nice(highest / 5), count)
    first, last = ticks[0][0], ticks[-1][0]
    x = _Axis(first, last if last > first else first + 1, LEFT, WIDTH - RIGHT)
    height = max(170.0, KEY * len(values_of))
    y, rules = _panel((TOP, height), y_name, math.ceil(highest / step) * step, step, number)
    out = _head(title, subtitle, TOP + height + 58) + rules
    for at, name in ticks[::max(1, math.ceil(len(ticks) / LABELS))]:
        out.append(_text(x(at), y.begin + 20, name, "faint", "middle"))
    out.append(_text((LEFT + WIDTH - RIGHT) / 2, y.begin + 40, x_name, "faint", "middle"))
    for k, (name, values) in enumerate(values_of.items()):
        points = [(x(at), y(v)) for (at, _), v in zip(ticks, values)]
        corners = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
        colour = LINES[k % len(LINES)]
        out.append(f'<polyline points="{corners}" fill="none" stroke="{colour}" stroke-width="2"/>')
        out += [f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3" fill="{colour}"/>' for a, b in points]
        end = "-" if not values else (share if shares else count)(values[-1])
        out += _key(WIDTH - RIGHT + 18, TOP + 10 + KEY * k, colour, name, end)
    return "\n".join(out + ["</svg>", ""])


def _head(title: str, subtitle: str, height: float) -> List[str]:
    return [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH:.0f} {height:.0f}" '
            f'width="{WIDTH:.0f}" height="{height:.0f}" role="img">',
            f"<title>{html.escape(title)}</title>", f"<style>{STYLE}</style>",
            f'<rect class="card" width="{WIDTH:.0f}" height="{height:.0f}" rx="10"/>',
            _text(LEFT - 56, 34, title, "title"), _text(LEFT - 56, 56, subtitle, "faint")]


class _Axis:
    """From figures to the picture."""

    def __init__(self, low: float, high: float, begin: float, end: float) -> None:
        self.low, self.high, self.begin, self.end = low, high, begin, end

    def __call__(self, value: float) -> float:
        part = (value - self.low) / (self.high - self.low)
        return self.begin + min(1.0, max(0.0, part)) * (self.end - self.begin)


def _columns(series: Sequence[Any]) -> List[Any]:
    """The series with at most COLUMNS points, none shorter than a column unless there are few."""
    if not series:
        return []
    least = sum(p.wall_s for p in series) / COLUMNS
    columns: List[Any] = []
    for point in series:
        if columns and columns[-1].wall_s < least:
            columns[-1].add(point)
        else:
            columns.append(type(point)(point.begin_s, point.wall_s, point.samples, point.workers,
                                       point.batches, dict(point.waited)))
    if len(columns) > 1 and columns[-1].wall_s < least:
        columns[-2].add(columns.pop())
    return columns


def _nice(least: float) -> float:
    """1, 2 or 5 times a power of ten, at least so much."""
    power = 10.0 ** math.floor(math.log10(least))
    return power * next(m for m in (1, 2, 5, 10) if m * power >= least * (1 - 1e-9))


def _nice_time(least: float) -> float:
    """As _nice(), but of minutes and hours where those are read."""
    steps = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200)
    return next((float(s) for s in steps if s >= least), None) or 86400 * _nice(least / 86400) \
        if least >= 1 else _nice(least)


def _percent(v: float) -> str:
    return f"{100 * v:.3g} %"


def _text(x: float, y: float, text: str, kind: str = "", anchor: str = "start") -> str:
    kind = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{kind}>{html.escape(text)}</text>'


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{kind}"/>'


def _title(report: Any) -> str:
    return f"{count(report.samples)} samples, {count(report.samples_per_s)} samples/s"


def _subtitle(report: Any) -> str:
    reads = report.hits + report.misses + report.bypasses
    hits = f", hits {share(report.hit_share)}" if reads else ""
    return f"in {clock(report.wall_s)}, stalled {share(report.stalled_share)} of it{hits}"


def _panel(place: Tuple[float, float], name: str, top: float, step: float,
           number: Callable[[float], str]) -> Tuple[_Axis, List[str]]:
    """An axis from 0 to `top` and its rules."""
    y0, height = place
    axis = _Axis(0.0, top, y0 + height, y0)
    out = [_text(LEFT - 56, y0 - 12, name, "name")]
    for i in range(round(top / step) + 1):
        y = axis(i * step)
        out += [_line(LEFT, y, WIDTH - RIGHT, y, "rule"),
                _text(LEFT - 9, y + 4, number(i * step), "faint", "end")]
    return axis, out


def _steps(columns: Sequence[Any], values: Sequence[float], x: _Axis, y: _Axis) -> List[str]:
    """Corners of a line that is level for as long as each column lasted."""
    corners = []
    for point, value in zip(columns, values):
        for t in (point.begin_s, point.begin_s + point.wall_s):
            corners.append(f"{x(t):.1f},{y(value):.1f}")
    return corners


def _curve(columns: Sequence[Any], values: Sequence[float], x: _Axis, y: _Axis,
           kind: str) -> List[str]:
    if not columns:
        return []
    corners = _steps(columns, values, x, y)
    first, last = corners[0].split(",")[0], corners[-1].split(",")[0]
    area = " ".join([f"{first},{y(0):.1f}", *corners, f"{last},{y(0):.1f}"])
    return [f'<polygon class="{kind}fill" points="{area}"/>',
            f'<polyline class="{kind}" stroke-linejoin="round" points="{" ".join(corners)}"/>']


def _key(x: float, y: float, colour: str, text: str, value: str) -> List[str]:
    return [f'<rect x="{x:.1f}" y="{y - 10:.1f}" width="11" height="11" rx="2" fill="{colour}"/>',
            _text(x + 17, y, text), _text(x + 17, y + 15, value, "faint")]


def _rate_panel(columns: Sequence[Any], x: _Axis) -> List[str]:
    rates = [p.samples / p.wall_s if p.wall_s > 0 else 0.0 for p in columns]
    top = max(rates + [1e-9])
    step = _nice(top / 5)
    y, out = _panel(PANELS[0], "samples/s", math.ceil(top / step) * step, step, count)
    return out + _curve(columns, rates, x, y, "rate")


def _stall_panel(columns: Sequence[Any], causes: dict, x: _Axis) -> List[str]:
    """Shares stacked: the cause that took most lies at the bottom."""
    top = max([sum(p.waited.values()) / p.wall_s for p in columns if p.wall_s > 0] + [0.04])
    step = _nice(min(1.0, top) / 4)
    y, out = _panel(PANELS[1], "stalled", min(1.0, math.ceil(top / step) * step), step, _percent)
    base = [0.0] * len(columns)
    key_y = PANELS[1][0] + 10
    for cause in sorted(causes, key=lambda c: -causes[c]):
        if causes[cause] <= 0:
            continue
        tops = [b + (p.waited.get(cause, 0.0) / p.wall_s if p.wall_s > 0 else 0.0)
                for b, p in zip(base, columns)]
        corners = _steps(columns, tops, x, y) + _steps(columns, base, x, y)[::-1]
        colour = COLOURS.get(cause, "#7a5195")
        out.append(f'<polygon fill="{colour}" points="{" ".join(corners)}"/>')
        out += _key(WIDTH - RIGHT + 18, key_y, colour, cause, share(causes[cause]))
        key_y += KEY
        base = tops
    return out


def _worker_panel(columns: Sequence[Any], x: _Axis) -> List[str]:
    numbers = [p.workers for p in columns]
    top = max([math.ceil(n) for n in numbers] + [1])
    step = max(1.0, _nice(top / 3))
    y, out = _panel(PANELS[2], "workers", math.ceil(top / step) * step, step, count)
    return out + _curve(columns, numbers, x, y, "count")


class _EpochSpan(NamedTuple):
    begin_s: float
    wall_s: float


def _epoch_panel(rows: Sequence[Any], x: _Axis) -> List[str]:
    """Each epoch as wide as it took."""
    y, out = _panel(PANELS[3], "epochs: samples seen, and hits", 1.0, 0.25, _percent)
    spans = [_EpochSpan(row.begin_s, row.end_s - row.begin_s) for row in rows]
    key_y = PANELS[3][0] + 10
    for name, values, colour in (("hits", [r.hit_share for r in rows], LINES[4]),
                                 ("reused", [r.reuse_share for r in rows], LINES[2])):
        corners = _steps(spans, values, x, y) + _steps(spans, [0.0] * len(rows), x, y)[::-1]
        out.append(f'<polygon fill="{colour}" opacity=".45" points="{" ".join(corners)}"/>')
        out += _key(WIDTH - RIGHT + 18, key_y, colour, name, share(values[-1]))
        key_y += KEY
    seen = " ".join(_steps(spans, [r.coverage for r in rows], x, y))
    out.append(f'<polyline class="rate" points="{seen}"/>')
    return out + _key(WIDTH - RIGHT + 18, key_y, LINES[0], "seen", share(rows[-1].coverage))


def _marks(marks: Sequence[Tuple[float, int]], x: _Axis, bottom: float) -> List[str]:
    """Where epochs end, as many as can be told apart; the lines go through all panels."""
    every = max(1, math.ceil(len(marks) / 60))
    named = max(1, math.ceil(len(marks) / LABELS))
    out, free = [], 0.0
    for i, (at, number) in enumerate(marks):
        if i % every == every - 1 or every == 1:
            out.append(_line(x(at), TOP - 8, x(at), bottom, "mark"))
        if i % named == named - 1 and x(at) - free > 46:
            out.append(_text(x(at), TOP - 14, f"epoch {number}" if free == 0 else str(number),
                             "faint", "middle"))
            free = x(at)
    return out


def _time_axis(x: _Axis, bottom: float) -> List[str]:
    step = _nice_time(x.high / 8)
    out, t = [], 0.0
    while t <= x.high * (1 + 1e-9):
        label = clock(t) if step >= 1 else f"{t:.3g} s"
        out += [_line(x(t), bottom, x(t), bottom + 5, "rule"),
                _text(x(t), bottom + 20, label, "faint", "middle")]
        t += step
    name = "time" if step < 1 else "time, minutes:seconds" if x.high < 3600 else "time, h:min:s"
    return out + [_text((LEFT + WIDTH - RIGHT) / 2, bottom + 40, name, "faint", "middle")]
