# SPDX-License-Identifier: Apache-2.0
"""How long does training wait for data? DLCache's grid, against a bucket 30 ms away.

Two datasets (JPEG images in sequence; speech as FLAC, shuffled), three batch sizes, six step times
(a sleep). All contenders run the same Python transform and read the same S3 server on loopback. They
are opened before the clock starts; nothing is cached.

torch-4, -16, -32   torch's DataLoader with so many workers, each with one connection: a GET after
                    the other
threads-64          torch's DataLoader with four workers, each of which gets its batch over 16
                    connections at once: 64 in all. What a careful user would write
ours                dlcache.torch.DataLoader, at most four workers; the daemon decides how many
                    requests are in flight

Start-up (iter() and the first batch: processes, connections, the first GETs) is a column of its own.
Stall is the time in next() for all other batches; wall is everything.

DLCache read from NFS, in batches of 512 to 2,048 images (128 to 512 utterances), with steps of 0.5
to 3 s. From its published times, PyTorch's four workers took 3.2, 6.4 and 12.8 times the shortest
step for a batch of each size. Ours is that grid: 8 images take four workers 8 x (30 + 2) / 4 ms =
64 ms, so steps are 20 to 120 ms. The transform takes 1.3 ms (images) and 1.6 ms (speech) of CPU per
sample, a twentieth of the latency: what is slow is the source, not the two cores. torch-4 is
DLCache's contender; most of what any other gains over it are requests in flight.

Goals: against torch-4, +157 % of samples per second of stall in each cell where it stalls; against
every contender, no cell slower by more than 1 % in wall.

    --quick      four cells, one run: about two minutes
    --runs N     runs of each cell (default 3)
    --who A,B    only these contenders
"""
import argparse
import functools
import time
import warnings
from concurrent.futures import ThreadPoolExecutor

import torch
import torch.utils.data

import samples
from common import apart, daemon, median, scratch, spread, table
from distant import Connection, Objects, bucket, labels_of

LATENCY_MS, WORKERS, BATCHES = 30, 4, 20
SIZES = (8, 16, 32)
STEPS = (0.02, 0.04, 0.06, 0.08, 0.10, 0.12)
DATA = {"images": (samples.image, False), "utterances": (samples.sound, True)}
QUICK = [("images", 8, 0.12), ("images", 16, 0.04), ("images", 32, 0.12), ("utterances", 16, 0.08)]
FIGURES = ("start", "stall", "wall")


class Threaded(Objects):
    """Gets the samples of a batch at once, over so many connections of each worker."""

    CONNECTIONS = 16

    def __getitem__(self, indices):
        if getattr(self, "pool", None) is None:  # in the worker
            self.pool = ThreadPoolExecutor(self.CONNECTIONS)
            self.idle = [Connection(self.connection.port) for _ in range(self.CONNECTIONS)]
        return torch.utils.data.default_collate([
            (self.make(data), self.labels[i])
            for i, data in zip(indices, self.pool.map(self.fetch, indices))])

    def fetch(self, i):
        connection = self.idle.pop()
        try:
            return connection.get(self.paths[i])
        finally:
            self.idle.append(connection)


def loop(loader, step_s):
    """Seconds until the first batch, in next() for the others, and in all; loader() makes it."""
    start = time.monotonic()
    batches = iter(loader())
    next(batches)
    first, stall = time.monotonic() - start, 0.0
    for _ in range(BATCHES - 1):
        time.sleep(step_s)
        asked = time.monotonic()
        next(batches)
        stall += time.monotonic() - asked
    time.sleep(step_s)
    return first, stall, time.monotonic() - start


def theirs(workers, name, dataset, size, step_s):
    shuffle = DATA[name][1]
    warnings.filterwarnings("ignore", message="This DataLoader will create")  # on few cores
    how = {"batch_size": size, "shuffle": shuffle}
    if isinstance(dataset, Threaded):  # batches are made by it: also torch 1.13 asks for them whole
        kind = "RandomSampler" if shuffle else "SequentialSampler"
        order = getattr(torch.utils.data, kind)(range(len(dataset)))
        how = {"batch_size": None,
               "sampler": torch.utils.data.BatchSampler(order, size, drop_last=False)}
    return loop(lambda: torch.utils.data.DataLoader(dataset, num_workers=workers, **how), step_s)


def ours(far, name, socket, size, step_s):
    import dlcache.torch

    make, shuffle = DATA[name]
    dataset = dlcache.torch.Dataset(far.url(name), decode=make, socket=socket)
    return loop(lambda: dlcache.torch.DataLoader(dataset, batch_size=size, shuffle=shuffle,
                                                 max_workers=WORKERS), step_s)


def with_daemon(build, far, name, size, step_s):
    with scratch() as home, daemon(build, home, "--quiet", "--memory", "1GB", "--disk", "0",
                                   env=far.env) as (socket, _):
        return apart(ours, far, name, socket, size, step_s)


def contenders(build, far, names):
    """{contender: what runs one cell of it}."""
    plain, threaded = {}, {}
    for name in names:
        make = DATA[name][0]
        path = samples.folder(name, build)
        keys = samples.files(path)
        far.add(name, path)
        make(samples.first(path))
        arguments = far.port, far.signed(name, keys), labels_of(keys), make
        plain[name], threaded[name] = Objects(*arguments), Threaded(*arguments)
    of = {f"torch-{n}": functools.partial(lambda n, name, *cell: apart(
        theirs, n, name, plain[name], *cell), n) for n in (4, 16, 32)}
    of["threads-64"] = lambda name, *cell: apart(theirs, WORKERS, name, threaded[name], *cell)
    of["ours"] = lambda *cell: with_daemon(build, far, *cell)
    return of


def better(runs, whose, what):
    """What ours has above another, in percent, by the medians of a time."""
    k = FIGURES.index(what)
    other, own = (median([r[k] for r in runs[who]]) for who in (whose, "ours"))
    return 100 * (other / max(own, 1e-4) - 1)


def summary(cells, who):
    """The cell in which ours is worst against each, by wall; and by stall against torch-4."""
    result = {}
    for other in who:
        if other != "ours" and "ours" in who:
            result[f"least_wall_percent_against_{other}"] = min(
                c["wall_percent"][other] for c in cells)
    return result


def run(build, argv):
    parser = argparse.ArgumentParser(prog="bench/run stall")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--runs", type=int)
    parser.add_argument("--who", default="torch-4,torch-16,torch-32,threads-64,ours")
    args = parser.parse_args(argv)
    rounds, who = args.runs or (1 if args.quick else 3), args.who.split(",")
    torch.set_num_threads(1)
    grid = QUICK if args.quick else [(n, b, s) for n in DATA for b in SIZES for s in STEPS]
    runs = {at: {w: [] for w in who} for at in grid}
    with bucket(build, LATENCY_MS) as far:
        of = contenders(build, far, sorted({at[0] for at in grid}))
        for _ in range(rounds):  # rounds outermost: what disturbs the machine disturbs all cells
            for at in grid:
                for w in who:
                    runs[at][w].append(of[w](*at))
    rows, cells = [], []
    for (name, size, step_s), got in runs.items():
        cell = {"data": name, "batch": size, "step_s": step_s, "stall_percent": {},
                "wall_percent": {}}
        for w in who:
            cell[w] = {f"{f}_s": round(median([r[k] for r in got[w]]), 4)
                       for k, f in enumerate(FIGURES)}
            if w != "ours" and "ours" in who:
                cell["stall_percent"][w] = round(better(got, w, "stall"), 1)
                cell["wall_percent"][w] = round(better(got, w, "wall"), 1)
            rows.append([f"{name}, {size}, {step_s * 1000:.0f} ms", w,
                         *(f"{cell[w][f + '_s']:.3f}" for f in FIGURES),
                         spread([r[2] for r in got[w]]),
                         f"{cell['wall_percent'][w]:+.1f} %" if w in cell["wall_percent"] else ""])
        cells.append(cell)
    table(["cell", "contender", "start s", "stall s", "wall s", "spread", "ours is faster"], rows)
    return {"cells": cells, **summary(cells, who), "runs": rounds, "batches": BATCHES,
            "latency_ms": LATENCY_MS}
