# SPDX-License-Identifier: Apache-2.0
"""How long does training wait for a bucket 53 ms away? DELI's set-up, real MNIST and CIFAR-10.

One object per sample, a serial loader (num_workers=0), shuffled, two epochs, a small convolutional
network trained on one core between the batches. Waiting is the time inside iter() and next().

direct       each sample is a GET when it is asked for, over one connection that stays open
fifty-fifty  as DELI does it: a cache of 2,048 samples, first in first out; when fewer than 1,024
             unread ones are in it or on their way, the next 1,024 of the epoch's order are asked
             for, in the background. A sample on its way is waited for, any other miss is a GET of
             its own. We do not know over how many connections: 8 come nearest to what DELI
             published, 16 stand for it here, and 64 are shown beside it
ours         dlcache with memory for 2,048 samples and no disk tier, nothing cached before

DELI has 14,000 and 11,667 samples and batches of 512. At 53 ms per GET that would take 45 minutes,
so all counts (samples, batch, cache, refill) are an eighth. What is fixed, such as the first GET,
weighs eight times as much as it would there. Direct is run once, its every GET being the same; the
others three times. Goal: at least 99 % less waiting than direct on both.
"""
import collections
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import torch
import torch.utils.data

import samples
from common import apart, daemon, median, scratch, spread, table
from distant import Connection, Objects, bucket, labels_of

LATENCY_MS, SCALE, EPOCHS, ROUNDS = 53, 8, 2, 3
BATCH, CACHE, REFILL = 512 // SCALE, 2_048 // SCALE, 1_024 // SCALE
DATA = {"mnist": 14_000 // SCALE, "cifar10": 11_667 // SCALE}


class FiftyFifty(Objects):
    """Samples must be asked for in the order that plan() was told."""

    def __init__(self, threads, port, paths, labels, make):
        super().__init__(port, paths, labels, make)
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
        if self.asked - self.at >= REFILL:
            return
        for i in self.order[self.asked:self.asked + REFILL]:
            if i in self.cache:
                self.cache.move_to_end(i)  # left from the epoch before: it stays until it is read
            else:
                self.cache[i] = self.pool.submit(self.fetch, i)
        self.asked += REFILL
        while len(self.cache) > CACHE:
            self.cache.popitem(last=False)

    def __getitem__(self, i):
        coming = self.cache.get(i)
        if coming is None or coming.cancel():
            self.cache.pop(i, None)
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


def train(loader):
    """Seconds waited for data, and trained, in each epoch."""
    model = optimizer = None
    waits, works = [], []
    for _ in range(EPOCHS):
        start, work = time.monotonic(), 0.0
        for images, labels in loader:
            begin = time.monotonic()
            if model is None:
                model = network(images.shape[1:])
                optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(images), labels).backward()
            optimizer.step()
            work += time.monotonic() - begin
        waits.append(time.monotonic() - start - work)
        works.append(work)
    return waits, works


def direct(objects):
    return train(torch.utils.data.DataLoader(Objects(*objects), batch_size=BATCH, shuffle=True))


def fifty_fifty(threads, objects):
    dataset = FiftyFifty(threads, *objects)
    return train(torch.utils.data.DataLoader(dataset, batch_size=BATCH, sampler=Planned(dataset)))


def ours(url, socket):
    import dlcache.torch

    dataset = dlcache.torch.Dataset(url, decode=samples.digit, socket=socket)
    return train(dlcache.torch.DataLoader(dataset, batch_size=BATCH, shuffle=True, num_workers=0))


def with_daemon(build, far, name, memory):
    with scratch() as home, daemon(build, home, "--quiet", "--memory", str(memory), "--disk", "0",
                                   env=far.env) as (socket, _):
        return apart(ours, far.url(name), socket)


def run(build):
    torch.set_num_threads(1)  # the other core is for whoever provides the data
    rows = []
    result = {"direct_s": {}, "fifty_fifty_s": {}, "ours_s": {}, "fifty_fifty_64_s": {},
              "epochs_s": {}, "scale": SCALE, "samples": DATA, "latency_ms": LATENCY_MS}
    with bucket(build, LATENCY_MS) as far, scratch("/dev/shm") as local:
        for name, count in DATA.items():
            path = f"{local}/{name}"
            samples.some(f"{samples.folder(name, build)}/train", count, path)
            far.add(name, path)
            keys = samples.files(path)
            samples.digit(samples.first(path))
            objects = (far.port, far.signed(name, keys), labels_of(keys), samples.digit)
            memory = CACHE * samples.mean_block(path)
            contenders = {"direct": (1, partial(apart, direct, objects)),
                          "fifty_fifty": (ROUNDS, partial(apart, fifty_fifty, 16, objects)),
                          "fifty_fifty_64": (ROUNDS, partial(apart, fifty_fifty, 64, objects)),
                          "ours": (ROUNDS, partial(with_daemon, build, far, name, memory))}
            for who, (rounds, work) in contenders.items():
                got = [work() for _ in range(rounds)]
                each = [median([waits[k] for waits, _ in got]) for k in range(EPOCHS)]
                means = [sum(waits) / EPOCHS for waits, _ in got]
                result[who + "_s"][name] = round(median(means), 4)
                result["epochs_s"].setdefault(who, {})[name] = [round(s, 4) for s in each]
                ratio = median(means) / result["direct_s"][name]
                against = "" if who == "direct" else f"{100 * (ratio - 1):+.2f} %"
                rows.append([f"{name}, {who.replace('_', '-')}", *(f"{s:.3f}" for s in each),
                             f"{median(means):.3f}", spread(means), against,
                             f"{median([sum(works) / EPOCHS for _, works in got]):.2f}"])
    table(["waiting, s", *(f"epoch {k + 1}" for k in range(EPOCHS)), "mean", "spread",
           "against direct", "training"], rows)
    return result
