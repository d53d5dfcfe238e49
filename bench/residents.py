# SPDX-License-Identifier: Apache-2.0
"""A reader's latency while 64 others follow, idle, wake, jump and close, by how many samples are resident.

A daemon holds 10^5, 10^6 and 10^7 tiny samples of a dataset that 64 sessions read; a reader of another dataset
misses every millisecond, and after a while each of its samples pushes some of the others out. Goals: p99 at most
2 ms with 10^7 residents, and about the same as with 10^5. Needs 5 GB of memory and a machine that is not busy.

    --seconds S      of each measurement (default 8)
    --most N         largest number of residents (default 10000000)
"""
import argparse
import json
import os
import subprocess

from common import make_files, process, scratch, table, wait_for

FILES, SIZE = 12000, 1000


def measure(build, home, y, n, seconds):
    tool = os.path.join(build, "bench", "bench-residents")
    dir_, socket = os.path.join(home, f"cache-{n}"), os.path.join(home, f"socket-{n}")
    x = f"file://{home}/x-{n}"
    os.makedirs(os.path.join(dir_, "catalogs"))
    os.makedirs(f"{home}/x-{n}")
    subprocess.run([os.path.join(build, "bench", "bench-scale"), "build", dir_, x, str(n)], check=True,
                   stdout=subprocess.DEVNULL)
    with process([tool, "serve", dir_, socket, str(n)]):
        wait_for(lambda: os.path.exists(socket), "the daemon")
        return json.loads(subprocess.run([tool, "read", x, y, socket, str(seconds)], check=True,
                                         stdout=subprocess.PIPE).stdout)


def run(build, argv=()):
    parser = argparse.ArgumentParser(prog="bench/run residents")
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--most", type=int, default=10_000_000)
    args = parser.parse_args(argv)
    sizes = [n for n in (100_000, 1_000_000, 10_000_000) if n <= args.most]
    with scratch() as home:
        data = os.path.join(home, "y")
        make_files(data, FILES, SIZE)
        found = {n: measure(build, home, f"file://{data}", n, args.seconds) for n in sizes}
    table(["residents", "p50 ms", "p99 ms", "longest ms", "reads", "changes"],
          [[f"{n:,}", f"{f['p50_ms']:.3f}", f"{f['p99_ms']:.3f}", f"{f['most_ms']:.3f}", f"{f['reads']}", f"{f['changes']}"]
           for n, f in found.items()])
    return {"p99_ms": {str(n): f["p99_ms"] for n, f in found.items()},
            "p50_ms": {str(n): f["p50_ms"] for n, f in found.items()},
            "most_ms": {str(n): f["most_ms"] for n, f in found.items()}}
