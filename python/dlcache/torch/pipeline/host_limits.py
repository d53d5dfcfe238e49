# SPDX-License-Identifier: Apache-2.0
"""Host limits: cores and memory that this process may use, within the limits of its cgroup.
"""

from __future__ import annotations

import math
import os

__all__ = ["available_bytes", "cores", "own_bytes", "workers_that_fit"]

_SHARE = 0.5  # of the memory that is free, workers may take
_CGROUP = "/sys/fs/cgroup"


def _read(path: str) -> str:
    try:
        with open(path) as f:
            return f.read()
    except OSError:
        return ""


def _field(text: str, name: str) -> int | None:
    """The kilobytes of a line such as "MemAvailable:   123 kB", in bytes."""
    for line in text.splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1]) * 1024
    return None


def _own_cgroup() -> str:
    for line in _read("/proc/self/cgroup").splitlines():
        if line.startswith("0::"):
            return _CGROUP + line[3:].rstrip("/")
    return _CGROUP


def _cgroups() -> list[str]:
    """This process's cgroup and those above it."""
    path, found = _own_cgroup(), []
    while path.startswith(_CGROUP):
        found.append(path)
        path = os.path.dirname(path)
    return found


def cores() -> int:
    """Processors that this process may use, at least 1."""
    count = len(os.sched_getaffinity(0))
    for group in _cgroups():
        quota = _read(group + "/cpu.max").split()
        if len(quota) == 2 and quota[0] != "max":
            count = min(count, max(1, math.ceil(int(quota[0]) / int(quota[1]))))
    return count


def available_bytes() -> int:
    """Memory that can be had without swapping or being killed."""
    free = _field(_read("/proc/meminfo"), "MemAvailable")
    free = 2**63 if free is None else free
    for group in _cgroups():
        limit, used = _read(group + "/memory.max").strip(), _read(group + "/memory.current").strip()
        if limit.isdigit() and used.isdigit():
            free = min(free, max(0, int(limit) - int(used)))
    return free


def own_bytes(pid: int) -> int:
    """Memory that would be free again if the process ended; 0: not known."""
    text = _read(f"/proc/{pid}/smaps_rollup")
    return sum(_field(text, name) or 0 for name in ("Private_Clean", "Private_Dirty"))


def workers_that_fit(pids: list[int]) -> int:
    """How many workers there can be in all, if more are like these."""
    each = max(map(own_bytes, pids), default=0)
    return len(pids) + int(_SHARE * available_bytes() / each) if each else 2**31
