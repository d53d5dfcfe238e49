# SPDX-License-Identifier: Apache-2.0
"""How long does training wait for a bucket 53 ms away? DELI's set-up, real MNIST and CIFAR-10.

One object per sample, a serial loader (num_workers=0), shuffled, two epochs, a small convolutional
network trained on one core between the batches. Waiting is the time inside iter() and next(); the
first batch is shown apart (start).

local        files of a local disk, read when they are asked for: DELI's best case. The page cache
             is dropped first where that is allowed (root)
direct       each sample is a GET when it is asked for, over one connection that stays open
full-fetch   all objects are copied to memory over 16 connections, then trained on; the copy is
             waiting of the first epoch
cache-N      no pre-fetch: a miss is a GET, and N % of the samples are kept, first in first out
fifty-fifty  as DELI does it: a cache of 2,048 samples, first in first out; when fewer than 1,024
             unread ones are in it or on their way, the next 1,024 of the epoch's order are asked
             for, in the background. A sample on its way is waited for, any other miss is a GET of
             its own. We do not know over how many connections: 8 come nearest to what DELI
             published, 16 stand for it here, and 64 are shown beside it
ours         dlcache with memory for 2,048 samples and no disk tier, nothing cached before

DELI has 14,000 and 11,667 samples and batches of 512. At 53 ms per GET that would take 45 minutes,
so all counts (samples, batch, cache, refill) are an eighth. What is fixed, such as the first GET,
weighs eight times as much as it would there. Contenders whose every GET is the same are run once,
fifty-fifty and ours three times. Goals: at least 99 % less waiting than direct on both; waiting
below local disk.

    --only PART   compare | links | sweeps | nodes: one of these; all without it
    --data NAME   mnist or cifar10 only
    --quick       compare on a quarter of the samples, one run: about four minutes

links    direct, fifty-fifty and ours over other links: 40 ms of jitter, and 20 Mbit/s; batch 1024
sweeps   DELI's: size of a fetch (256 to 2,048), cache (512 to 4,096), trigger (512 to 1,536), all
         divided by eight, of fifty-fifty; ours at the same sizes of cache. misses x 53 ms stands
         beside the waiting: DELI's law
nodes    three nodes, each of which reads a third: direct, and ours as three daemons that share
"""
import argparse
import collections
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import torch
import torch.utils.data

import samples
from common import apart, daemon, median, scratch, side_by_side, spread, stat, table
from distant import Connection, Objects, bucket, further, labels_of, nodes_of

LATENCY_MS, SCALE, EPOCHS, ROUNDS = 53, 8, 2, 3
BATCH, CACHE, REFILL = 512 // SCALE, 2_048 // SCALE, 1_024 // SCALE
DATA = {"mnist": 14_000 // SCALE, "cifar10": 11_667 // SCALE}


class Local(Objects):
    """Files of a folder instead of objects."""

    def __init__(self, root, keys, labels, make):
        super().__init__(0, [os.path.join(root, key) for key in keys], labels, make)

    def __getitem__(self, i):
        with open(self.paths[i], "rb") as f:
            return self.make(f.read()), self.labels[i]


class Kept(Objects):
    """Keeps so many samples, first in first out, and fetches nothing ahead."""

    def __init__(self, room, *objects):
        super().__init__(*objects)
        self.room, self.cache, self.misses = room, collections.OrderedDict(), 0

    def __getitem__(self, i):
        if i not in self.cache:
            self.misses += 1
            self.cache[i] = self.connection.get(self.paths[i])
            if len(self.cache) > self.room:
                self.cache.popitem(last=False)
        return self.make(self.cache[i]), self.labels[i]


class Fetched(Kept):
    """Copies everything first."""

    def __init__(self, *objects):
        super().__init__(len(objects[1]), *objects)
        local = threading.local()

        def fetch(path):
            if not hasattr(local, "connection"):
                local.connection = Connection(self.connection.port)
            return local.connection.get(path)
        with ThreadPoolExecutor(16) as pool:
            self.cache.update(enumerate(pool.map(fetch, self.paths)))


class FiftyFifty(Objects):
    """Samples must be asked for in the order that plan() was told."""

    def __init__(self, threads, port, paths, labels, make, cache=CACHE, fetch=REFILL,
                 trigger=REFILL):
        super().__init__(port, paths, labels, make)
        self.room, self.fetch_size, self.trigger, self.misses = cache, fetch, trigger, 0
        self.local = threading.local()
        self.pool = ThreadPoolExecutor(threads)
        self.cache = collections.OrderedDict()  # sample -> its bytes, there or on their way
        self.order, self.at, self.asked = [], 0, 0

    def fetch(self, i):
        if not hasattr(self.local, "connection"):
            self.local.connection = Connection(self.connection.port)
        return self.local.connection.get(self.paths[i])

    def plan(self, order):
        self.order, self.at, self.asked = order, 0, 0
        self.refill()

    def refill(self):
        if self.asked - self.at >= self.trigger:
            return
        for i in self.order[self.asked:self.asked + self.fetch_size]:
            if i in self.cache:
                self.cache.move_to_end(i)  # left from the epoch before: it stays until it is read
            else:
                self.cache[i] = self.pool.submit(self.fetch, i)
        self.asked += self.fetch_size
        while len(self.cache) > self.room:
            self.cache.popitem(last=False)

    def __getitem__(self, i):
        coming = self.cache.get(i)
        if coming is None or coming.cancel():
            self.cache.pop(i, None)
            self.misses += 1
            data = self.connection.get(self.paths[i])
        else:
            data = coming.result()
        self.at += 1
        self.refill()
        return self.make(data), self.labels[i]


class Planned(torch.utils.data.Sampler):
    """A random order that the dataset is told first."""

    def __init__(self, dataset):
        self.dataset = dataset

    def __iter__(self):
        order = torch.randperm(len(self.dataset)).tolist()
        self.dataset.plan(order)
        return iter(order)

    def __len__(self):
        return len(self.dataset)


def network(shape):
    from torch import nn

    channels, side = shape[0], shape[1]
    return nn.Sequential(
        nn.Conv2d(channels, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(64 * (side // 4) ** 2, 64), nn.ReLU(), nn.Linear(64, 10))


def train(make):
    """Seconds waited in each epoch, trained, until the first batch; misses. make() gives the
    loader."""
    start = time.monotonic()
    loader = make()
    model = optimizer = first = None
    waits, works = [], []
    for _ in range(EPOCHS):
        work = 0.0
        for images, labels in loader:
            begin = time.monotonic()
            if model is None:
                first = begin - start
                model = network(images.shape[1:])
                optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(images), labels).backward()
            optimizer.step()
            work += time.monotonic() - begin
        waits.append(time.monotonic() - start - work)
        works.append(work)
        start = time.monotonic()
    return {"waits": waits, "works": works, "start": first,
            "misses": getattr(loader.dataset, "misses", None)}


def plain(kind, batch, *arguments):
    """A dataset of torch's loader."""
    return train(lambda: torch.utils.data.DataLoader(kind(*arguments), batch_size=batch,
                                                     shuffle=True))


def fifty_fifty(threads, batch, objects, **sizes):
    def make():
        dataset = FiftyFifty(threads, *objects, **sizes)
        return torch.utils.data.DataLoader(dataset, batch_size=batch, sampler=Planned(dataset))
    return train(make)


def ours(url, socket, batch, rank=0, world=1):
    import dlcache.torch

    dataset = dlcache.torch.Dataset(url, decode=samples.digit, socket=socket)
    if world == 1:
        return train(lambda: dlcache.torch.DataLoader(dataset, batch_size=batch, shuffle=True,
                                                      num_workers=0))
    order = dlcache.torch.Shuffle(len(dataset), seed=1, rank=rank, world=world)
    return train(lambda: dlcache.torch.DataLoader(dataset, batch_size=batch, sampler=order,
                                                  num_workers=0))


def with_daemon(build, far, url, memory, batch):
    with scratch() as home, daemon(build, home, "--quiet", "--memory", str(memory), "--disk", "0",
                                   env=far.env) as (socket, _):
        got = apart(ours, url, socket, batch)
        return {**got, "misses": sum(d["misses"] for d in stat(build, socket)["datasets"])}


def drop_page_cache():
    """True: files come from the disk now."""
    try:
        os.sync()
        with open("/proc/sys/vm/drop_caches", "w") as f:
            f.write("1")
        return True
    except OSError:
        return False


class Setting:
    """One dataset in a far bucket and on the local disk, and who reads it."""

    def __init__(self, build, far, local, name, count):
        self.build, self.far, self.name = build, far, name
        self.path = f"{local}/{name}"
        samples.some(f"{samples.folder(name, build)}/train", count, self.path)
        far.add(name, self.path)
        self.keys = samples.files(self.path)
        samples.digit(samples.first(self.path))
        self.block = samples.mean_block(self.path)
        self.labels = labels_of(self.keys)

    def objects(self, far=None):
        far = far or self.far
        return far.port, far.signed(self.name, self.keys), self.labels, samples.digit

    def local(self):
        dropped = drop_page_cache()
        return {**apart(plain, Local, BATCH, self.path, self.keys, self.labels, samples.digit),
                "page_cache_dropped": dropped}

    def direct(self, batch=BATCH, far=None):
        return apart(plain, Objects, batch, *self.objects(far))

    def kept(self, percent):
        return apart(plain, Kept, BATCH, len(self.keys) * percent // 100, *self.objects())

    def full_fetch(self):
        return apart(plain, Fetched, BATCH, *self.objects())

    def fifty(self, threads, batch=BATCH, far=None, **sizes):
        return apart(partial(fifty_fifty, threads, batch, self.objects(far), **sizes))

    def ours(self, batch=BATCH, far=None, cache=CACHE):
        far = far or self.far
        return with_daemon(self.build, far, far.url(self.name), cache * self.block, batch)


class Results:
    """Rows of a table, and the JSON."""

    def __init__(self):
        self.rows, self.json = [], {}

    def add(self, part, name, who, got, against=None):
        means = [sum(g["waits"]) / EPOCHS for g in got]
        value = median(means)
        each = [median([g["waits"][k] for g in got]) for k in range(EPOCHS)]
        misses = median([g["misses"] for g in got]) if got[0]["misses"] is not None else None
        entry = {"mean_s": round(value, 4), "epochs_s": [round(s, 4) for s in each],
                 "start_s": round(median([g["start"] for g in got]), 4), "misses": misses}
        self.json.setdefault(part, {}).setdefault(name, {})[who] = entry
        ratio = f"{100 * (value / against - 1):+.2f} %" if against else ""
        law = "" if misses is None else f"{misses / EPOCHS * LATENCY_MS / 1000:.2f}"
        self.rows.append([f"{part}: {name}, {who}", *(f"{s:.3f}" for s in each), f"{value:.3f}",
                          spread(means), f"{entry['start_s']:.3f}", ratio, law,
                          f"{median([sum(g['works']) / EPOCHS for g in got]):.2f}"])
        return value


def compare(s, results, rounds):
    against = results.add("compare", s.name, "direct", [s.direct()])
    todo = {"local": (rounds, s.local), "full-fetch": (1, s.full_fetch),
            **{f"cache-{p}": (1, partial(s.kept, p)) for p in (25, 50, 75, 100)},
            "fifty-fifty": (rounds, partial(s.fifty, 16)),
            "fifty-fifty-64": (rounds, partial(s.fifty, 64)), "ours": (rounds, s.ours)}
    for who, (n, work) in todo.items():
        results.add("compare", s.name, who, [work() for _ in range(n)], against)


def links(s, results, rounds):
    """Other links to the same server, by the delay proxy."""
    for link, shape in (("jitter", [40]), ("20 Mbit/s", [0, 2_500_000])):
        with further(s.build, s.far, LATENCY_MS, *shape) as far:
            against = results.add(link, s.name, "direct", [s.direct(far=far)])
            results.add(link, s.name, "fifty-fifty", [s.fifty(16, far=far)], against)
            results.add(link, s.name, "ours", [s.ours(far=far) for _ in range(rounds)], against)
    batch = 1_024 // SCALE
    against = results.add("batch 1024", s.name, "direct", [s.direct(batch)])
    results.add("batch 1024", s.name, "fifty-fifty", [s.fifty(16, batch)], against)
    results.add("batch 1024", s.name, "ours", [s.ours(batch) for _ in range(rounds)], against)


def sweeps(s, results, rounds):
    for fetch in (256, 512, 1_024, 2_048):
        results.add("fetch size", s.name, f"fifty-fifty {fetch}",
                    [s.fifty(16, fetch=fetch // SCALE, cache=4_096 // SCALE)])
    for cache in (512, 1_024, 2_048, 4_096):
        sizes = {"cache": cache // SCALE, "fetch": cache // 2 // SCALE,
                 "trigger": cache // 2 // SCALE}
        results.add("cache size", s.name, f"fifty-fifty {cache}", [s.fifty(16, **sizes)])
        results.add("cache size", s.name, f"ours {cache}",
                    [s.ours(cache=cache // SCALE) for _ in range(rounds)])
    for trigger in (512, 1_024, 1_536):
        results.add("trigger", s.name, f"fifty-fifty {trigger}",
                    [s.fifty(16, trigger=trigger // SCALE)])


def nodes(s, results, rounds):
    """Three ranks at once, each with a third of the samples and a daemon of its own."""
    port, paths, labels, make = s.objects()
    thirds = [(port, paths[k::3], labels[k::3], make) for k in range(3)]

    def slowest(calls):
        got = side_by_side(calls)
        return {**got[0], "waits": [max(g["waits"][k] for g in got) for k in range(EPOCHS)],
                "start": max(g["start"] for g in got)}

    def cluster():
        with nodes_of(s.build, s.far, s.name, 3, CACHE * s.block) as (url, sockets):
            return slowest([(ours, url, sockets[k], BATCH, k, 3) for k in range(3)])
    against = results.add("three nodes", s.name, "direct",
                          [slowest([(plain, Objects, BATCH, *third) for third in thirds])])
    results.add("three nodes", s.name, "fifty-fifty",
                [slowest([(fifty_fifty, 16, BATCH, third) for third in thirds])], against)
    results.add("three nodes", s.name, "ours", [cluster() for _ in range(rounds)], against)


PARTS = {"compare": compare, "links": links, "sweeps": sweeps, "nodes": nodes}


def run(build, argv):
    parser = argparse.ArgumentParser(prog="bench/run bucket-wait")
    parser.add_argument("--only", choices=PARTS)
    parser.add_argument("--data", choices=DATA)
    parser.add_argument("--quick", action="store_true")
    args = parser.parse_args(argv)
    torch.set_num_threads(1)  # the other core is for whoever provides the data
    results, rounds = Results(), 1 if args.quick else ROUNDS
    parts = [args.only] if args.only else ["compare"] if args.quick else list(PARTS)
    counts = {args.data: DATA[args.data]} if args.data else dict(DATA)
    if args.quick:
        counts = {name: n // 4 for name, n in counts.items()}
    with bucket(build, LATENCY_MS) as far, scratch() as local:
        for name, count in counts.items():
            setting = Setting(build, far, local, name, count)
            for part in parts:
                PARTS[part](setting, results, rounds)
    table(["waiting, s", *(f"epoch {k + 1}" for k in range(EPOCHS)), "mean", "spread", "start",
           "against direct", "misses x 53 ms", "training"], results.rows)
    below = {name: round(of["ours"]["mean_s"] / of["local"]["mean_s"], 4)
             for name, of in results.json.get("compare", {}).items()}
    return {**results.json, "ours_by_local": below, "scale": SCALE, "samples": counts,
            "latency_ms": LATENCY_MS}
