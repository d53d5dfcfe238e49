# SPDX-License-Identifier: Apache-2.0
"""What does it bring to draw samples by importance, and what does it cost? Real CIFAR-10 and MNIST.

A small convolutional network is trained on one core for the same number of seconds with each
contender, from a real S3 server 53 ms away, through the real daemon with memory for a share c of
the samples and no disk tier:

lru          plain shuffling; what was used least recently leaves
known-order  plain shuffling; what is needed latest leaves (dlcache without any settings)
shade-1      drawn with replacement by SHADE's weights; what is resident comes first
shade-3      the same, and what is resident comes three times
coverage     ours: half of the samples in each epoch, by weight, none twice, and each at least once
             in four epochs

Epochs differ in length and content between them, so the clock decides, not the epoch. hit: reads
that needed no GET, from the third epoch on. coverage: distinct samples in an epoch, of all.
reads_per_distinct: GETs for each of those. accuracy: on test samples, when the seconds are over (the
test does not count). to_accuracy: seconds after which 95 % of the accuracy is reached that
known-order ends with in the same setting, looked at after each epoch; "never" if most seeds do not.
Every contender runs with five seeds; the least and the most are shown, and the JSON has the median.
`slow` is the same at c = .2 from a bucket that serves eight requests at a time (150 per second), for
three times as long: the case that importance is for.

Goal: ours is never less accurate than known-order by more than the spread of its seeds. Hits of
different draws are shown and not judged: SHADE's "4.5 times LRU" is against LRU on draws of its own
kind, and LRU on a shuffle without repeats hits next to nothing (.005 at c = .1), whatever it is
compared with.

DLCACHE_BENCH_SECONDS: of each training, 20 by default (then all takes two hours).
DLCACHE_BENCH_SEEDS: 5 by default. DLCACHE_BENCH_SHARES: of .1, .2 and .4 only these, with commas.
DLCACHE_BENCH_DATA: only that of the two. DLCACHE_BENCH_MODES: only these, with commas.
"""
import os
import time

import torch

import samples
from common import apart, daemon, median, scratch, stat, table
from distant import bucket

LATENCY_MS, BATCH, RATE, TESTS, WARM = 53, 64, 0.001, 2_000, 2
SEEDS = int(os.environ.get("DLCACHE_BENCH_SEEDS", "5"))
ENOUGH = 0.95  # of the accuracy of known-order
DATA = {"cifar10": 8_192, "mnist": 8_192}
SHARES = os.environ.get("DLCACHE_BENCH_SHARES", "0.1,0.2,0.4").split(",")
MODES = ("lru", "known-order", "shade-1", "shade-3", "coverage")
SLOW_SHARE, SLOW_REQUESTS = "0.2", 8


def network(shape):
    from torch import nn

    channels, side = shape[0], shape[1]
    return nn.Sequential(
        nn.Conv2d(channels, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 32, 3, padding=1), nn.ReLU(),
        nn.Flatten(), nn.Linear(32 * (side // 4) ** 2, 64), nn.ReLU(), nn.Linear(64, 10))


def loader_of(dataset, mode, seed):
    import dlcache.torch

    if mode in ("lru", "known-order"):
        torch.manual_seed(seed)
        return dlcache.torch.DataLoader(dataset, batch_size=BATCH, shuffle=True, num_workers=0)
    how = {"shade-1": {"mode": "shade", "replication": 1.0},
           "shade-3": {"mode": "shade", "replication": 3.0},
           "coverage": {"mode": "coverage"}}[mode]
    sampler = dlcache.torch.ImportanceSampler(dataset, seed=seed, **how)
    return dlcache.torch.DataLoader(dataset, batch_size=BATCH, sampler=sampler, num_workers=0)


def centred(images):
    return images * 4 - 2


def accuracy(model, tests):
    images, labels = tests
    model.eval()
    with torch.no_grad():
        found = torch.cat([model(centred(part)).argmax(1) for part in images.split(500)])
    model.train()
    return float((found == labels).float().mean())


def train(build, url, socket, mode, seconds, seed, tests):
    """What one training gave: epochs as (positions, distinct samples, GETs), accuracies by seconds,
    and the share of the time that it waited for the bucket."""
    import dlcache.torch

    torch.manual_seed(seed)
    model = network(tests[0].shape[1:])
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE)
    dataset = dlcache.torch.Dataset(url, decode=samples.digit, socket=socket)
    loader = loader_of(dataset, mode, seed)
    learns = mode not in ("lru", "known-order")
    used, epochs, curve, gets = 0.0, [], [], 0
    while used < seconds:
        begin, positions = time.monotonic(), 0
        for images, labels in loader:
            optimizer.zero_grad()
            losses = torch.nn.functional.cross_entropy(model(centred(images)), labels,
                                                       reduction="none")
            losses.mean().backward()
            optimizer.step()
            if learns:
                loader.learn(losses.detach())
            positions += len(labels)
            if used + time.monotonic() - begin > seconds:
                break
        took = time.monotonic() - begin
        used += took
        now = stat(build, socket)["counters"]["bucket_gets"]
        if used < seconds or not epochs:  # the last one is cut short
            distinct = loader.sampler.figures.distinct if learns else positions
            epochs.append((positions, min(distinct, positions), now - gets))
        gets = now
        curve.append((round(used, 2), round(accuracy(model, tests), 4)))
    report = loader.report()
    return epochs, curve, report.waited_s * report.cause["bucket"] / used


def figures(runs, samples_n):
    """The medians over runs of what the issue of a training is."""
    rows = []
    for epochs, curve, stall in runs:
        steady = epochs[WARM:] or epochs[-1:]
        positions = sum(e[0] for e in steady)
        rows.append({"hit": 1 - sum(e[2] for e in steady) / positions,
                     "coverage": sum(e[1] for e in steady) / len(steady) / samples_n,
                     "reads_per_distinct": sum(e[2] for e in steady) / sum(e[1] for e in steady),
                     "stall": stall,
                     "epochs": len(epochs), "samples": sum(e[0] for e in epochs),
                     "accuracy": curve[-1][1], "seconds": curve[-1][0]})
    found = {key: round(median([r[key] for r in rows]), 4) for key in rows[0]}
    found["accuracies"] = sorted(r["accuracy"] for r in rows)
    found["curves"] = [curve for _, curve, _ in runs]
    return found


def reached(curve, target):
    return next((at for at, right in curve if right >= target), float("inf"))


def compare(by_mode):
    """Adds to_accuracy to each mode of one setting: known-order says what is enough."""
    if "known-order" not in by_mode:
        return
    target = ENOUGH * by_mode["known-order"]["accuracy"]
    for got in by_mode.values():
        at = median([reached(curve, target) for curve in got["curves"]])
        got["to_accuracy"] = None if at == float("inf") else round(at, 2)


def cell(build, far, name, mode, memory, seconds, tests, requests=None):
    runs = []
    flags = ["--max-requests", str(requests)] if requests else []
    policy = "lru" if mode == "lru" else "auto"
    for seed in range(SEEDS):
        with scratch() as home, daemon(build, home, "--quiet", "--memory", str(memory), "--disk",
                                       "0", "--memory-policy", policy, *flags,
                                       env=far.env) as (socket, _):
            runs.append(apart(train, build, far.url(name), socket, mode, seconds, seed, tests))
    return runs


def tests_of(path):
    """Test samples and their labels, in memory."""
    keys = samples.files(path)
    classes = sorted({os.path.dirname(key) for key in keys})
    some = [keys[i * len(keys) // TESTS] for i in range(TESTS)]
    images = []
    for key in some:
        with open(os.path.join(path, key), "rb") as f:
            images.append(samples.digit(f.read()))
    return torch.stack(images), torch.tensor([classes.index(os.path.dirname(k)) for k in some])


def row(where, mode, c, got):
    spread = got["accuracies"]
    return [where, mode, c, f"{got['hit']:.3f}", f"{got['coverage']:.3f}",
            f"{got['reads_per_distinct']:.3f}", f"{100 * got['stall']:.1f} %", f"{got['epochs']:.0f}",
            f"{100 * got['accuracy']:.1f} %",
            f"{100 * spread[0]:.1f}..{100 * spread[-1]:.1f}" if len(spread) > 1 else "",
            f"{got['seconds']:.1f}", f"{got['to_accuracy']:.1f}" if got.get("to_accuracy") else "never"]


def setting(build, far, name, modes, memory, seconds, tests, count, requests=None):
    """All modes in one setting."""
    found = {mode: figures(cell(build, far, name, mode, memory, seconds, tests, requests), count)
             for mode in modes}
    compare(found)
    return found


def run(build):
    torch.set_num_threads(1)  # the other core is for whoever provides the data
    seconds = float(os.environ.get("DLCACHE_BENCH_SECONDS", "20"))
    only = os.environ.get("DLCACHE_BENCH_DATA", "")
    modes = os.environ.get("DLCACHE_BENCH_MODES", ",".join(MODES)).split(",")
    rows, result = [], {"slow": {}}
    with bucket(build, LATENCY_MS) as far, scratch("/dev/shm") as local:
        for name, count in DATA.items():
            if only not in ("", name):
                continue
            source, path = samples.folder(name, build), f"{local}/{name}"
            samples.some(f"{source}/train", count, path)
            far.add(name, path)
            tests = tests_of(f"{source}/test")
            block = samples.mean_block(path)
            result[name] = {mode: {} for mode in modes}
            for c in SHARES:
                found = setting(build, far, name, modes, 4096 + int(float(c) * count) * block, seconds,
                                tests, count)
                for mode, got in found.items():
                    result[name][mode][c] = got
                    rows.append(row(name, mode, c, got))
            result["slow"][name] = setting(build, far, name, modes,
                                           4096 + int(float(SLOW_SHARE) * count) * block, 3 * seconds,
                                           tests, count, SLOW_REQUESTS)
            rows += [row(f"{name}, slow", mode, SLOW_SHARE, got) for mode, got in result["slow"][name].items()]
    table(["data", "mode", "c", "hit", "coverage", "GETs/distinct", "stall", "epochs", "accuracy",
           "of seeds", "seconds", "to accuracy"], rows)
    return {**result, "samples": DATA, "latency_ms": LATENCY_MS, "slow_requests": SLOW_REQUESTS}
