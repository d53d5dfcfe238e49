# SPDX-License-Identifier: Apache-2.0
"""Does num_workers="auto" find the best number of workers? Every fixed number beside it.

1,024 JPEG images in dlcache's memory (warm: only the loader is looked at), decoded and augmented in
Python, batches of 16, several epochs without a break, always our loader.

load-bound      no step: more workers help as long as there are cores
balanced        a step (a sleep) as long as one worker takes for a batch
compute-bound   a step four times as long

Samples per second from iter() on, so what auto spends on finding out counts. Rounds are
interleaved. Goal: within 5 % of the best fixed number in each loop.
"""
import time
import warnings

import torch

import samples
from common import apart, daemon, median, scratch, spread, table

BATCH, ROUNDS, LIMIT = 16, 5, 4
LOOPS = {"load-bound": (0.0, 4), "balanced": (1.0, 3), "compute-bound": (4.0, 1)}  # step, epochs
FIXED = range(LIMIT + 1)


def open_dataset(url, socket):
    import dlcache.torch

    return dlcache.torch.Dataset(url, decode=samples.image, socket=socket)


def batch_seconds(url, socket):
    """What one process takes to make a batch when nobody disturbs it."""
    import dlcache.torch

    dataset = open_dataset(url, socket)
    loader = dlcache.torch.DataLoader(dataset, batch_size=BATCH, num_workers=0)
    times = []
    for _ in loader:  # the first epoch brings all samples into memory
        pass
    start = time.monotonic()
    for _ in loader:
        times.append(time.monotonic() - start)
        start = time.monotonic()
    return median(times)


def loop(url, socket, number, step_s, epochs):
    """Samples per second of a training loop with that many workers."""
    import dlcache.torch

    dataset = open_dataset(url, socket)
    limit = {"max_workers": LIMIT} if number == "auto" else {}
    warnings.filterwarnings("ignore", message="This DataLoader will create")  # on few cores
    loader = dlcache.torch.DataLoader(dataset, batch_size=BATCH, shuffle=True, num_workers=number,
                                      drop_last=True, epochs=epochs, **limit)
    count, start = 0, time.monotonic()
    for _ in range(epochs):
        for images, _ in loader:
            count += len(images)
            if step_s > 0:
                time.sleep(step_s)
    return count / (time.monotonic() - start)


def run(build):
    torch.set_num_threads(1)
    path = samples.folder("images", build)
    samples.image(samples.first(path))
    url = f"file://{path}"
    got = {name: {number: [] for number in ("auto", *FIXED)} for name in LOOPS}
    with scratch() as home, daemon(build, home, "--quiet", "--memory", "1GB", "--disk", "0") as (
            socket, _):
        batch_s = apart(batch_seconds, url, socket)
        for _ in range(ROUNDS):
            for name, (share, epochs) in LOOPS.items():
                for number, rates in got[name].items():
                    rates.append(apart(loop, url, socket, number, share * batch_s, epochs))
    rows, result = [], {"auto": {}, "fixed": {}, "of_best": {}, "batch_s": round(batch_s, 5)}
    for name, rates in got.items():
        fixed = {number: median(rates[number]) for number in FIXED}
        best = max(fixed.values())
        result["auto"][name] = round(median(rates["auto"]), 1)
        result["fixed"][name] = {str(number): round(rate, 1) for number, rate in fixed.items()}
        result["of_best"][name] = round(median(rates["auto"]) / best, 4)
        rows.append([name, f"{median(rates['auto']):.0f} {spread(rates['auto'])}",
                     *(f"{fixed[number]:.0f} {spread(rates[number])}" for number in FIXED),
                     f"{100 * (median(rates['auto']) / best - 1):+.1f} %"])
    table(["samples/s", "auto", *(f"{n} workers" for n in FIXED), "against the best"], rows)
    return result
