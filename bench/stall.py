# SPDX-License-Identifier: Apache-2.0
"""How long does training wait for data? DLCache's grid, torch's DataLoader and ours.

Two datasets (JPEG images in sequence; speech as FLAC, shuffled), three batch sizes, six step times
(a sleep). Both loaders have at most four workers, run the same Python transform, and read the same
S3 server on loopback, 30 ms away. Dataset and daemon are opened before the clock starts; nothing is
cached. Stall is the time inside iter() and next(), the first batch included.

DLCache read from NFS, in batches of 512 to 2,048 images (128 to 512 utterances), with steps of 0.5
to 3 s. From its published times, PyTorch's four workers took 3.2, 6.4 and 12.8 times the shortest
step for a batch of each size. Ours is that grid: 8 images take four workers 8 x (30 + 2) / 4 ms =
64 ms, so steps are 20 to 120 ms. The transform takes 1.3 ms (images) and 1.6 ms (speech) of CPU per
sample, a twentieth of the latency: what is slow is the source, not the two cores.

Goals: +157 % of samples per second of stall in each cell where torch stalls; no cell slower beyond
the spread.

DLCACHE_BENCH_RUNS: runs per cell, 5 by default.
"""
import os
import time
import warnings

import torch
import torch.utils.data

import samples
from common import apart, daemon, median, scratch, spread, table
from distant import Objects, bucket, labels_of

LATENCY_MS, WORKERS, BATCHES = 30, 4, 20
SIZES = (8, 16, 32)
STEPS = (0.02, 0.04, 0.06, 0.08, 0.10, 0.12)
DATA = {"images": (samples.image, False), "utterances": (samples.sound, True)}


def loop(loader, step_s):
    """(seconds in iter() and next(), seconds in all) of BATCHES steps; loader() makes it."""
    start = time.monotonic()
    batches = iter(loader())
    stall = time.monotonic() - start
    for _ in range(BATCHES):
        asked = time.monotonic()
        next(batches)
        stall += time.monotonic() - asked
        time.sleep(step_s)
    return stall, time.monotonic() - start


def theirs(name, dataset, size, step_s):
    shuffle = DATA[name][1]
    warnings.filterwarnings("ignore", message="This DataLoader will create")  # on few cores
    return loop(lambda: torch.utils.data.DataLoader(dataset, batch_size=size, shuffle=shuffle,
                                                    num_workers=WORKERS), step_s)


def ours(far, name, socket, size, step_s):
    import dlcache.torch

    make, shuffle = DATA[name]
    dataset = dlcache.torch.Dataset(far.url(name), decode=make, socket=socket)
    return loop(lambda: dlcache.torch.DataLoader(dataset, batch_size=size, shuffle=shuffle,
                                                 max_workers=WORKERS), step_s)


def cell(build, far, name, dataset, size, step_s):
    """One run of both, each in a process of its own: (torch, ours)."""
    one = apart(theirs, name, dataset, size, step_s)
    with scratch() as home, daemon(build, home, "--quiet", "--memory", "1GB", "--disk", "0",
                                   env=far.env) as (socket, _):
        return one, apart(ours, far, name, socket, size, step_s)


def better(runs):
    """What our samples per second of stall are above torch's, in percent, by the medians."""
    return 100 * (median([t[0] for t, _ in runs]) / median([o[0] for _, o in runs]) - 1)


def run(build):
    rounds = int(os.environ.get("DLCACHE_BENCH_RUNS", "5"))
    torch.set_num_threads(1)
    grid = [(name, size, step) for name in DATA for size in SIZES for step in STEPS]
    runs = {at: [] for at in grid}
    with bucket(build, LATENCY_MS) as far:
        plain = {}
        for name, (make, _) in DATA.items():
            path = samples.folder(name, build)
            keys = samples.files(path)
            far.add(name, path)
            make(samples.first(path))
            plain[name] = Objects(far.port, far.signed(name, keys), labels_of(keys), make)
        for _ in range(rounds):  # rounds outermost: what disturbs the machine disturbs all cells
            for name, size, step_s in grid:
                runs[name, size, step_s].append(cell(build, far, name, plain[name], size, step_s))
    rows, cells = [], []
    for (name, size, step_s), got in runs.items():
        values = {f"{who}_{what}_s": [g[i][k] for g in got]
                  for i, who in enumerate(("torch", "ours"))
                  for k, what in enumerate(("stall", "wall"))}
        cells.append({"data": name, "batch": size, "step_s": step_s,
                      **{k: round(median(v), 4) for k, v in values.items()},
                      "better_percent": round(better(got), 1)})
        rows.append([name, size, f"{step_s * 1000:.0f} ms",
                     *(f"{median(values[k]):.3f} {spread(values[k])}"
                       for k in ("torch_stall_s", "ours_stall_s")),
                     f"{better(got):+.0f} %",
                     *(f"{median(values[k]):.2f}" for k in ("torch_wall_s", "ours_wall_s")),
                     f"{median(values['torch_wall_s']) / median(values['ours_wall_s']):.2f}x"])
    table(["data", "batch", "step", "torch stalls", "ours stalls", "per stall", "torch wall",
           "ours wall", "faster"], rows)
    return {"cells": cells, "runs": rounds, "batches": BATCHES, "latency_ms": LATENCY_MS,
            "workers": WORKERS}
