# SPDX-License-Identifier: Apache-2.0
"""Workloads that a real daemon can replay: chunks with sizes and costs, and jobs that read them.

A workload is scaled in bytes and seconds when it is written out, and the simulator gets exactly what the
daemon gets: the same sizes, the same order of reads. Costs stay in the seconds of the original; `pace` says
how long a second of them takes.
"""
import csv
import dataclasses
import os
import random

PARALLEL = 8  # DLCache's simulation divides its measured costs by it


@dataclasses.dataclass
class Workload:
    name: str
    chunks: list    # (key, bytes, seconds); the first part of the key is the dataset
    jobs: list      # (dataset, [number of a chunk, ...]), one after the other
    capacity: int   # bytes
    pace: float = 1.0

    def runs_after(self, at):
        """How often that job's dataset is read after it; jobs that read a part of it each are parts of a run."""
        dataset = self.jobs[at][0]
        chunks = {i for d, reads in self.jobs if d == dataset for i in reads}
        left = sum(i != before for d, reads in self.jobs[at + 1:] if d == dataset
                   for before, i in zip([None, *reads], reads))
        return -(-left // len(chunks))

    def write(self, path):
        """As docs/format/trace.md."""
        with open(path, "w") as f:
            for key, size, cost in self.chunks:
                f.write(f"chunk {size} {cost:.6f} {key}\n")
            for at, (dataset, reads) in enumerate(self.jobs):
                f.write(f"job j{at} {dataset}\n")
                f.writelines(f"read j{at} {self.chunks[i][0]}\n" for i in reads)

    def scaled(self, capacity, seconds):
        """With this capacity in bytes, and chunks that take so many seconds on average."""
        by = capacity / self.capacity
        mean = sum(c for _, _, c in self.chunks) / len(self.chunks)
        return dataclasses.replace(self, capacity=capacity, pace=seconds / mean,
                                   chunks=[(k, max(1, round(s * by)), c) for k, s, c in self.chunks])

    def cut(self, piece, pieces, seconds):
        """Chunks become samples of `piece` bytes, of which `pieces` fit. Their costs differ by up to a third, as
        measured ones do: equal costs would be ties that only a simulator has."""
        one, rng = self.capacity / pieces, random.Random(1)
        chunks, numbers = [], []
        for key, size, cost in self.chunks:
            n = max(1, round(size / one))
            numbers.append(range(len(chunks), len(chunks) + n))
            parts = [rng.uniform(0.75, 1.25) for _ in range(n)]
            chunks += [(f"{key}/{i:03}", piece, cost * p / sum(parts)) for i, p in enumerate(parts)]
        jobs = [(d, [i for at in reads for i in numbers[at]]) for d, reads in self.jobs]
        mean = sum(c for _, _, c in chunks) / len(chunks)
        return dataclasses.replace(self, chunks=chunks, jobs=jobs, capacity=piece * pieces,
                                   pace=seconds / mean)


def windows(reads, width):
    return [reads[i:i + width] for i in range(max(1, len(reads) - width + 1))]


def evenly(values, rows, rng):
    """So many of them, each as often as any other, in random order."""
    some = [values[i % len(values)] for i in range(rows)]
    rng.shuffle(some)
    return some


def published(path, rows, seed):
    """Some rows of DLCache's experiment; each capacity and each value of its grid is there equally often."""
    with open(path, newline="") as f:
        table = [(r["Key"], int(float(r["Size"])), float(r["Cost"]) / PARALLEL) for r in csv.DictReader(f)]
    rng = random.Random(seed)
    grid = [evenly(v, rows, rng) for v in ((160, 180, 200, 220, 240, 260), (1, 3, 5), (1, 3, 5, 7), (1, 3, 5, 7))]
    return [mix(f"{gb} GB", table, gb * 10**9, reuse, share, last, rng) for gb, reuse, share, last in zip(*grid)]


def mix(name, table, capacity, reuse, share, last, rng):
    """DLCache's four habits, for four datasets in the order in which they appear."""
    table = sorted(table, key=lambda row: row[0])
    by = {}
    for i, (key, _, _) in enumerate(table):
        by.setdefault(key.split("/")[0], []).append(i)
    reused, shared, slid, once = (by[d] for d in ("ILSVRC", "LibriSpeech", "IDS2018", "Inrix"))
    jobs = [("ILSVRC", reused)] * reuse
    jobs += [("LibriSpeech", [i for i in shared for _ in range(share)])] * share
    slides = windows(slid, last + 1)
    jobs += [("IDS2018", None)] * len(slides) + [("Inrix", once)]
    rng.shuffle(jobs)
    left = iter(slides)  # they keep their own order
    table = [(f"{key.split('/')[0]}/{i:03}", size, cost) for i, (key, size, cost) in enumerate(table)]
    return Workload(name, table, [(d, next(left) if r is None else r) for d, r in jobs], capacity)


def generated(seed):
    """A workload of other datasets and other jobs; all its parameters come from the seed."""
    rng = random.Random(seed)
    chunks, jobs = [], []
    for d in range(rng.randint(3, 6)):
        numbers, median, spread = [], rng.uniform(0.5e9, 8e9), rng.uniform(0.1, 0.9)
        fixed, by_byte = rng.uniform(0, 12), rng.uniform(3e-9, 25e-9)
        for i in range(rng.randint(6, 24)):
            size = min(int(median * rng.lognormvariate(0, spread)), int(20e9))
            numbers.append(len(chunks))
            chunks.append((f"d{d}/{i:03}", size, fixed + size * by_byte * rng.lognormvariate(0, 0.3)))
        if rng.random() < 0.3:
            jobs += [(f"d{d}", w) for w in windows(numbers, rng.randint(2, 6))]
        else:
            jobs += [(f"d{d}", numbers)] * rng.randint(1, 6)
    order = [d for d, _ in jobs]
    rng.shuffle(order)
    turns = {d: iter([r for e, r in jobs if e == d]) for d in set(order)}
    capacity = int(sum(s for _, s, _ in chunks) * rng.uniform(0.4, 0.7))
    return Workload(f"seed {seed}", chunks, [(d, next(turns[d])) for d in order], capacity)


def data(name):
    """A file of DLCache's experiments: in the folder DLCACHE_TRACES, by default ../shared/data."""
    return os.path.join(os.environ.get("DLCACHE_TRACES", os.path.join("..", "shared", "data")), name)
