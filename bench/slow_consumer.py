# SPDX-License-Identifier: Apache-2.0
"""A training loop that is slow for two minutes, then fast: memory stays bounded, and batches come.

The native loader makes 224x224 images in batches of 64, with a ring of 4. Whatever the loop does,
the process may grow by two batches at most beyond what it had after its first epoch; and when it is
fast again, as many threads work as before. Batches per second are shown, not judged.
"""
import os
import subprocess
import time

from common import apart, daemon, scratch, table

COUNT, BATCH, SLOW_S, EACH_S = 640, 64, 120.0, 2.0
BATCH_BYTES = BATCH * 3 * 224 * 224


def own_memory():
    """Of this process, without what it shares with the daemon; bytes."""
    with open("/proc/self/status") as f:
        return next(int(line.split()[1]) << 10 for line in f if line.startswith("RssAnon"))


def fast(loader, epochs):
    """Batches per second."""
    start, n = time.monotonic(), 0
    for _ in range(epochs):
        for _ in loader:
            n += 1
    return n / (time.monotonic() - start)


def slow(loader, seconds):
    """(most memory, share of the time that threads worked, batches taken)"""
    most, n, busy = 0, 0, loader.report().busy_s
    start = time.monotonic()
    while time.monotonic() - start < seconds:
        for _ in loader:
            n += 1
            time.sleep(EACH_S)  # the training step
            most = max(most, own_memory())
            if time.monotonic() - start >= seconds:
                break
    return most, (loader.report().busy_s - busy) / (time.monotonic() - start), n


def of_one_process(directory, socket, seconds):
    from dlcache.torch import HorizontalFlip, ImageLoader, RandomResizedCrop

    with ImageLoader("file://" + directory + "/", BATCH, [RandomResizedCrop(224), HorizontalFlip()], shuffle=True,
                     decoded_cache=False, socket=socket, spawn=False) as loader:
        fast(loader, 1)
        had, before, threads = own_memory(), fast(loader, 2), loader.report().threads
        most, busy, n = slow(loader, seconds)
        slow_threads, after = loader.report().threads, fast(loader, 2)
        return {"grown_bytes": max(most, own_memory()) - had, "busy": round(busy, 3), "slow_batches": n,
                "before_per_s": round(before, 1), "after_per_s": round(after, 1), "threads": threads,
                "slow_threads": slow_threads, "after_threads": loader.report().threads}


def battery(build):
    with scratch("/dev/shm") as top:
        data = os.path.join(top, "data", "photos")
        os.makedirs(data)
        subprocess.run([os.path.join(build, "bench", "bench-images"), str(COUNT), "1", data], check=True,
                       stdout=subprocess.DEVNULL)
        with daemon(build, top, "--memory", "256MB", "--disk", "0") as (socket, _):
            found = apart(of_one_process, os.path.dirname(data), socket,
                          float(os.environ.get("DLCACHE_BENCH_SECONDS", SLOW_S)))
    table(["a slow consumer, then a fast one", ""], [[k, str(v)] for k, v in found.items()])
    if found["grown_bytes"] > 2 * BATCH_BYTES:
        raise SystemExit(f"bench/battery: memory has grown by {found['grown_bytes']} bytes")
    if found["after_threads"] < found["threads"]:
        raise SystemExit("bench/battery: threads have not come back after a slow consumer")
    return found
