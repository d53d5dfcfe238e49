# SPDX-License-Identifier: Apache-2.0
"""Search everything that a process could read of memory: what it has mapped, and what it has descriptors of.

    search_memory.count(pid, b"a mark", b"another")      -> [how often each is there]

`below`: also what it has open of files below this directory.
"""
import os

STEP = 1 << 24


def _mappings(pid):
    with open("/proc/%d/maps" % pid) as f:
        for line in f:
            span, access = line.split()[:2]
            if access.startswith("r") and not line.rstrip().endswith(("[vvar]", "[vsyscall]")):
                yield [int(x, 16) for x in span.split("-")]


def _parts(pid, below):
    with open("/proc/%d/mem" % pid, "rb", buffering=0) as mem:
        for first, end in _mappings(pid):
            for at in range(first, end, STEP):
                try:
                    yield os.pread(mem.fileno(), min(end - at, STEP), at)
                except OSError:  # of a device
                    pass
    for fd in os.listdir("/proc/%d/fd" % pid):
        path = "/proc/%d/fd/%s" % (pid, fd)
        try:
            link = os.readlink(path)
            if "memfd:" in link or (below and link.startswith(below)):
                with open(path, "rb") as f:
                    yield f.read()
        except FileNotFoundError:  # it was closed just now
            pass


def count(pid, *marks, below=None):
    found = [0] * len(marks)
    for part in _parts(pid, below):
        for i, mark in enumerate(marks):
            found[i] += part.count(mark)
    return found
