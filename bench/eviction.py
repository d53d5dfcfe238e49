# SPDX-License-Identifier: Apache-2.0
"""What eviction costs: DLCache's experiment repeated, its six policies and ours.

The published trace (14,400 rows) when its files lie in ../shared/data, and always a workload of the same
shape that the program makes. Seconds spent on misses, mean over all rows. Goals on the published trace: the
six policies within 0.01 % of their published means (random within 1 %), ours at most 4,480 when each
dataset's number of runs is declared at its first run, and at most 4,900 when nothing is declared.
"""
import csv
import gzip
import json
import os
import subprocess
import tempfile

from common import program, table

DATA = os.path.join("..", "shared", "data")
CHUNKS = os.path.join(DATA, "dlcache-exp3-datasets.csv")
RESULTS = os.path.join(DATA, "dlcache-exp3-results.csv.gz")

# Our names, and the columns of the published results: LRFU and Random are swapped there.
PUBLISHED = {"lru": ("LRU", 6431.92), "random": ("LRFU", 5783.12), "lrfu": ("Random", 5655.72),
             "lfu": ("LFU", 5603.00), "greedy": ("Greedy", 5159.63),
             "cost-aware-lrfu": ("CostAwareLRFU", 4936.35)}
CONTENDERS = [*PUBLISHED, "worth-blind", "worth", "belady", "offline"]
# Its clock was the time that its own simulation took, and a use counted half after two seconds.
# Its cost-aware LRFU compared costs between equal uses only.
CLOCK = ["--clock", "work", "--half-life", "2s", "--cost-factor", "0"]
TRACE = ["--chunks", CHUNKS, "--parallel", "8", "--numpy", "--seed", "12345"]


def simulate(build, *flags):
    out = subprocess.run([program(build), "sim", "--json", *flags], check=True,
                         stdout=subprocess.PIPE).stdout
    return {name: x["seconds"] for name, x in json.loads(out)["policies"].items()}


def same_rows(path):
    """For each published policy: on how many rows our replay costs what was published."""
    with open(path, newline="") as ours, gzip.open(RESULTS, "rt", newline="") as theirs:
        pairs = list(zip(csv.DictReader(ours), csv.DictReader(theirs)))
    return len(pairs), {name: sum(abs(float(o[name]) - float(t[column])) < 1e-6 for o, t in pairs)
                        for name, (column, _) in PUBLISHED.items()}


def show(means, published=None, same=None, rows=0):
    heads = ["policy", "mean seconds"] + (["published", "difference", "rows equal"] if published else [])
    lines = []
    for name, mean in means.items():
        line = [name, f"{mean:.2f}"]
        if published and name in published:
            want = published[name][1]
            line += [f"{want:.2f}", f"{100 * (mean / want - 1):+.3f} %", f"{same[name]} of {rows}"]
        lines.append(line + [""] * (len(heads) - len(line)))
    table(heads, lines)


def run_published(build):
    with tempfile.NamedTemporaryFile(suffix=".csv") as each:
        means = simulate(build, *TRACE, *CLOCK, "--shuffles", "50", "--each", each.name, "--policies",
                         ",".join(CONTENDERS))
        rows, same = same_rows(each.name)
    print("DLCache's trace, 77 measured chunks")
    show(means, PUBLISHED, same, rows)
    decaying = simulate(build, *TRACE, "--clock", "job", *CLOCK[2:], "--shuffles", "50",
                        "--policies", "cost-aware-lrfu")["cost-aware-lrfu"]
    print(f"cost-aware-lrfu with a clock that ticks once per job: {decaying:.2f}\n")
    return means


def result(means):
    rounded = {name: round(mean, 2) for name, mean in means.items()}
    return {"policies": {name: rounded[name] for name in PUBLISHED}, "ours": rounded["worth"],
            "ours_blind": rounded["worth-blind"], "belady": rounded["belady"],
            "offline": rounded["offline"]}


def run(build):
    published = None
    if os.path.exists(CHUNKS) and os.path.exists(RESULTS):
        published = run_published(build)
    else:
        print(f"DLCache's trace: skipped, its files are not in {DATA}\n")
    made = simulate(build, *CLOCK, "--shuffles", "50", "--policies", ",".join(CONTENDERS))
    print("a workload of the same shape, made here")
    show(made)
    return {**result(published if published else made), "trace": "published" if published else "made",
            "made": result(made)}
