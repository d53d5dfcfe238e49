# SPDX-License-Identifier: Apache-2.0
"""Numbers as text: for reports, progress lines and plots.
"""
from __future__ import annotations

import math


def count(n: float) -> str:
    """1,234; 12.3; 0.45"""
    return f"{n:,.0f}" if n >= 100 or n == int(n) else f"{n:.3g}"


def size(n: float) -> str:
    """1.2 GB, as the command line program says it."""
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if n < 1000:
            break
        n /= 1000
    else:
        unit = "PB"
    return f"{n:.0f} B" if unit == "B" else f"{n:.1f} {unit}"


def duration(seconds: float) -> str:
    """120 ms, 4.1 s, 0:41, 3:07:00"""
    if not math.isfinite(seconds):
        return "-"
    if seconds < 1:
        return f"{seconds * 1e3:.3g} ms"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    return clock(seconds)


def clock(seconds: float) -> str:
    """0:41, 3:07:00"""
    whole = round(seconds)
    hours, minutes = divmod(whole // 60, 60)
    return f"{hours}:{minutes:02}:{whole % 60:02}" if hours else f"{minutes}:{whole % 60:02}"


def share(x: float) -> str:
    """12 %, 0.3 %, 98.2 %; 100 % only if it is."""
    percent = 100 * x
    if percent >= 99.95 and x < 1:
        return "99.9 %"
    return f"{percent:.1f} %" if 0 < percent < 99.95 else f"{percent:.0f} %"


def money(usd: float) -> str:
    """0.0012 USD, 3.20 USD"""
    return f"{usd:.2f} USD" if usd >= 1 or usd == 0 else f"{usd:.4f} USD"
