# SPDX-License-Identifier: Apache-2.0
"""Does dlcache slow down what is fast already? DLCache's grids on a local file system.

DLCache's own setting (its exp1 and exp2): images in sequence and speech shuffled, on a file system
of this machine, one epoch, a training step that sleeps. Every contender reads the same files and
runs the same Python transform. What it costs is decoding: PyTorch is hard to beat here.

torch-4, -8, -16   torch's DataLoader with so many workers
ours-4, ours-8     dlcache.torch.DataLoader with as many, the tuner switched off (exp1)
ours-auto          the tuner, at most 8 workers (exp2)

warm   the files are in the page cache; cold   the page cache is dropped before each run (root only)

The daemon is started for each run and holds nothing; the dataset is opened before the clock starts.
Four workers of PyTorch take 3.2, 6.4 and 12.8 times the shortest step for a batch of each size, as
in DLCache's published times.

start      seconds until the first batch
stall      seconds in next() after that
samples/s  all samples by all the time, start included
cache      the most samples that were in memory and not read yet, as share of the data
workers    at the end
CPU        ms of all processes, the daemon's too, for each sample that was handed out: less
           dependent on what else the machine does than time is
memory     of all processes, the daemon's too, shared pages divided (PSS), at the end

Goals: no cell slower than PyTorch with the same workers by more than 1 %; stalled cells faster.

    --quick    four cells, warm, one run: one to three minutes
    --runs N   runs of each cell (default 3); the whole grid takes about 25 minutes for each
    --who A,B  only these contenders
    --batch N, --step-ms X, --data NAME   only these cells
    --warm     without the cold half
"""
import argparse
import os
import time
import warnings

import torch
import torch.utils.data

import samples
from bucket_wait import Local, drop_page_cache
from common import apart, cpu_seconds, daemon, median, scratch, spread, stat, table
from distant import labels_of

BATCHES, MOST = 16, 8
SIZES = (16, 32, 64)
STEPS = tuple(0.0033 * k for k in range(1, 7))
DATA = {"images": (samples.image, False), "utterances": (samples.sound, True)}
WHO = ("torch-4", "torch-8", "torch-16", "ours-4", "ours-8", "ours-auto")
AGAINST = {"ours-4": "torch-4", "ours-8": "torch-8", "ours-auto": "torch-8"}
FIGURES = ("start", "stall", "wall")


def children_of(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as f:
            return [int(p) for p in f.read().split()]
    except OSError:
        return []


def memory_of(pids):
    """Bytes of these processes and their children."""
    total = 0
    for pid in pids:
        total += memory_of(children_of(pid))
        try:
            with open(f"/proc/{pid}/smaps_rollup") as f:
                total += next(int(line.split()[1]) << 10 for line in f if line.startswith("Pss:"))
        except (OSError, StopIteration):
            pass
    return total


def cpu_of(pids):
    """Seconds of CPU of these processes and their children so far."""
    return sum(cpu_seconds(pid) + cpu_of(children_of(pid)) for pid in pids)


def loop(make, step_s, look, pids):
    """Figures of BATCHES steps; look() tells what the cache holds ahead."""
    pids = [os.getpid(), *pids]
    start, cpu = time.monotonic(), cpu_of(pids)
    loader = make()
    batches = iter(loader)
    count = len(next(batches)[1])
    first, stall, ahead, looking = time.monotonic() - start, 0.0, 0.0, 0.0
    for k in range(BATCHES - 1):
        time.sleep(step_s)
        if k == BATCHES // 2:
            begin = time.monotonic()
            ahead = look(count)
            looking = time.monotonic() - begin
        asked = time.monotonic()
        count += len(next(batches)[1])
        stall += time.monotonic() - asked
    time.sleep(step_s)
    wall = time.monotonic() - start - looking
    workers = loader.report().workers if hasattr(loader, "report") else loader.num_workers
    return {"start": first, "stall": stall, "wall": wall, "samples": count, "ahead": ahead,
            "workers": workers, "cpu": (cpu_of(pids) - cpu) / count, "memory": memory_of(pids)}


def theirs(workers, name, path, size, step_s):
    make, shuffle = DATA[name]
    keys = samples.files(path)
    dataset = Local(path, keys, labels_of(keys), make)
    warnings.filterwarnings("ignore", message="This DataLoader will create")  # on few cores
    return loop(lambda: torch.utils.data.DataLoader(dataset, batch_size=size, shuffle=shuffle,
                                                    num_workers=workers),
                step_s, lambda read: 0.0, [])


def ours(workers, name, path, socket, pid, build, size, step_s):
    import dlcache.torch

    make, shuffle = DATA[name]
    dataset = dlcache.torch.Dataset(f"file://{path}", decode=make, socket=socket)
    limit = {"num_workers": "auto", "max_workers": MOST} if workers == "auto" else {
        "num_workers": int(workers)}
    warnings.filterwarnings("ignore", message="This DataLoader will create")

    def look(read):
        held = sum(d["resident"] for d in stat(build, socket)["datasets"])
        return max(0, held - read) / len(dataset)
    return loop(lambda: dlcache.torch.DataLoader(dataset, batch_size=size, shuffle=shuffle,
                                                 **limit), step_s, look, [pid])


def one(build, who, cold, name, path, size, step_s):
    kind, workers = who.split("-")
    if cold and not drop_page_cache():
        raise SystemExit("bench: only root can drop the page cache; use --warm")
    if kind == "torch":
        return apart(theirs, int(workers), name, path, size, step_s)
    with scratch() as home, daemon(build, home, "--quiet", "--memory", "1GB", "--disk",
                                   "0") as (socket, child):
        return apart(ours, workers, name, path, socket, child.pid, build, size, step_s)


def row_of(at, who, got, cell):
    name, cold, size, step_s = at
    mine = cell[who]
    against = AGAINST.get(who)
    return [f"{name}, {'cold' if cold else 'warm'}, {size}, {step_s * 1000:.0f} ms", who,
            f"{mine['samples_per_s']:.0f}", spread([g["wall"] for g in got]),
            *(f"{mine[f + '_s']:.3f}" for f in FIGURES), f"{100 * mine['ahead']:.0f} %",
            f"{mine['workers']:.0f}", f"{mine['cpu_ms']:.2f}", f"{mine['memory'] / 1e6:.0f} MB",
            f"{cell['faster_percent'][who]:+.1f} %" if against in cell else ""]


def cell_of(at, got):
    name, cold, size, step_s = at
    cell = {"data": name, "cold": cold, "batch": size, "step_s": round(step_s, 4),
            "faster_percent": {}}
    for who, runs in got.items():
        of = {f: median([r[f] for r in runs]) for f in (*FIGURES, "samples", "ahead", "workers",
                                                         "memory", "cpu")}
        cell[who] = {**{f"{f}_s": round(of[f], 4) for f in FIGURES},
                     "samples_per_s": round(of["samples"] / of["wall"], 1),
                     "ahead": round(of["ahead"], 4), "workers": of["workers"],
                     "cpu_ms": round(of["cpu"] * 1000, 3), "memory": int(of["memory"])}
    for who, other in AGAINST.items():
        if who in cell and other in cell:
            ratio = cell[who]["samples_per_s"] / cell[other]["samples_per_s"]
            cell["faster_percent"][who] = round(100 * (ratio - 1), 1)
    return cell


def run(build, argv):
    parser = argparse.ArgumentParser(prog="bench/run local")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--runs", type=int)
    parser.add_argument("--who")
    parser.add_argument("--batch", type=int)
    parser.add_argument("--step-ms", type=float)
    parser.add_argument("--data", choices=DATA)
    parser.add_argument("--warm", action="store_true")
    args = parser.parse_args(argv)
    who = args.who.split(",") if args.who else [
        w for w in WHO if not args.quick or w not in ("torch-16", "ours-8")]
    rounds = args.runs or (1 if args.quick else 3)
    grid = [(n, c, b, s) for n in DATA for c in ((False,) if args.warm else (False, True))
            for b in SIZES for s in STEPS]
    if args.quick:
        grid = [("images", False, b, s) for b in (SIZES[0], SIZES[-1])
                for s in (STEPS[0], STEPS[-1])]
    grid = [(n, c, b, s) for n, c, b, s in grid if n == (args.data or n)
            and b == (args.batch or b) and abs(s * 1000 - (args.step_ms or s * 1000)) < 0.5]
    torch.set_num_threads(1)
    paths = {name: samples.folder(name, build) for name in sorted({at[0] for at in grid})}
    for name, path in paths.items():
        DATA[name][0](samples.first(path))
        for key in samples.files(path):  # into the page cache
            with open(os.path.join(path, key), "rb") as f:
                f.read()
    runs = {at: {w: [] for w in who} for at in grid}
    for _ in range(rounds):
        for at in grid:
            for w in who:
                name, cold, size, step_s = at
                runs[at][w].append(one(build, w, cold, name, paths[name], size, step_s))
    cells = [cell_of(at, got) for at, got in runs.items()]
    rows = [row_of(at, w, got[w], cell) for (at, got), cell in zip(runs.items(), cells)
            for w in who]
    table(["cell", "contender", "samples/s", "spread", "start s", "stall s", "wall s", "cache",
           "workers", "CPU ms", "memory", "against torch"], rows)
    least = {w: min(c["faster_percent"][w] for c in cells) for w in AGAINST
             if all(w in c["faster_percent"] for c in cells)}
    return {"cells": cells, "least_percent": least, "runs": rounds, "batches": BATCHES}
