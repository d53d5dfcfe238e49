# SPDX-License-Identifier: Apache-2.0
"""Does pre-fetching hide the bucket? A consumer of 1,000 samples/s, 30, 100 and 300 ms with jitter.

Memory for 2,048 samples of 50 KB, 6,000 samples read once in shuffled order, the bucket's latency varies by
a fifth. Goals: stalled at most 0.5 % of the wall time after the first second; never more samples ahead than
twice what Little's law asks (rate x latency).
"""
import json
import os
import subprocess
import threading

from common import daemon, make_files, scratch, stat, table

SAMPLES, SIZE, RATE, MEMORY = 6_000, 50_000, 1_000, 2_048


def watch(build, socket, stop, ahead):
    """The window as the daemon reports it, looked at while the consumer runs."""
    while not stop.wait(0.25):
        for ds in stat(build, socket)["datasets"]:
            ahead.append(ds.get("ahead", 0))


def once(build, data, ms):
    url = f"file://{data}?latency={ms}ms&jitter={ms // 5}ms"
    memory = MEMORY * (SIZE + 64)
    with scratch() as home, daemon(build, home, "--quiet", "--memory", str(memory), "--disk", "0") as (
            socket, _):
        stop, ahead = threading.Event(), []
        child = subprocess.Popen([os.path.join(build, "bench", "bench-consume"), url, socket, "1",
                                  str(RATE), "follow"],
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        watcher = threading.Thread(target=watch, args=(build, socket, stop, ahead))
        watcher.start()
        r = json.loads(child.stdout.readline())
        stop.set()
        watcher.join()
        child.communicate("\n")
        counters = stat(build, socket)["counters"]
    little = RATE * (ms + ms // 5) / 1000
    share = r["stalled_later_s"] / (r["seconds"] - 1)
    steady = ahead[4:] or ahead
    return share, r, max(steady, default=0) / little, counters


def run(build):
    rows, result = [], {"stall_share": {}, "memory_over_little": {}}
    with scratch("/dev/shm") as memory:
        data = os.path.join(memory, "data")
        make_files(data, SAMPLES, SIZE)
        for ms in (30, 100, 300):
            share, r, over, counters = once(build, data, ms)
            result["stall_share"][str(ms)] = round(share, 5)
            result["memory_over_little"][str(ms)] = round(over, 2)
            rows.append([f"{ms} ms", f"{100 * share:.3f} %", f"{r['samples'] / r['seconds']:.0f}",
                         f"{r['first_s'] * 1000:.0f} ms", f"{over:.2f}",
                         str(counters["bucket_gets"])])
    table(["latency", "stalled after 1 s", "samples/s", "first sample", "window / Little", "GETs"], rows)
    return result
