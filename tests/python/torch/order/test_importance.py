# SPDX-License-Identifier: Apache-2.0
# timeout: 240
"""ImportanceSampler with a daemon: which samples it weighs, with which loader, what is saved of it."""
import itertools
import json
import math
import multiprocessing
import os
import pickle
import socket
import struct
import unittest
import warnings

import package_case
import numpy
import torch
import torch.distributed
from torch.utils.data import BatchSampler, Subset

from dlcache.torch import DataLoader, Dataset, ImportanceSampler, Shuffle, TensorLoader, plot

N, TEST = 64, 20
BAD = (7, 23, 41)


def number(data):
    """What a file says it is; a bad one says nothing."""
    return struct.unpack("<q", bytes(data))[0]


def loss_of(values):
    return 0.5 + 2 * torch.as_tensor(values, dtype=torch.float32)


class Numbered(package_case.Case):
    """Samples that say who they are: train 0 to N - 1, test N on."""

    def setUp(self):
        super().setUp()
        self.fill()

    def fill(self, bad=()):
        """Sample number i is that of value 7 i + 3 modulo N, so that numbers are no values."""
        rows = ["path,split"]
        for split, first, n in (("train", 0, N), ("test", N, TEST)):
            for i in range(n):
                value = first + (7 * i + 3) % n
                rows.append("%04d.bin,%s" % (value, split))
                self.write("bucket/%04d.bin" % value, b"bad" if value in bad else struct.pack("<q", value))
        self.write("bucket/manifest.csv", "\n".join(rows).encode())

    def dataset(self, split="train", **how):
        return Dataset(self.url("bucket"), split, decode=number, **how)

    def values(self, dataset):
        """What each index says, also where the sample is bad."""
        return [int(dataset.key(i)[-8:-4]) for i in range(len(dataset))]

    def sampler(self, source=None, **how):
        how = {"rule": "plain", "prefer": 1, **how}
        return ImportanceSampler(self.dataset() if source is None else source, **how)

    def raw_weights(self, sampler):
        """By sample number, of the whole dataset."""
        handle = sampler._draws.weights._any()
        return numpy.frombuffer(handle.weights(0, len(handle)), numpy.float32)


class Arguments(unittest.TestCase):
    """Refused before anything is opened."""

    def refuse(self, word, **how):
        with self.assertRaisesRegex(ValueError, word):
            ImportanceSampler("file:///nowhere/at/all/", spawn=False, **how)

    def test_misspelt(self):
        self.refuse('mode=\'cover\': it is "coverage" .* or "shade"', mode="cover")
        self.refuse('rule=\'loss\': it is "rank" .* or "plain"', rule="loss")

    def test_replication(self):
        for value in (0, 0.25, 100.5, 101, -1, 1.2, "all", math.nan):
            self.refuse("0.5 to 100 in steps of 0.5", mode="shade", replication=value)
        self.refuse("no sample comes twice", replication=3)
        self.refuse("no sample comes twice", replication="auto")

    def test_prefer(self):
        for value in (0, 0.5, 1001, "much", math.nan):
            self.refuse("1 to 1000", prefer=value)
        self.refuse("replication does it", mode="shade", prefer=2)

    def test_ranks(self):
        self.refuse("ranks count from 0", rank=2, world=2)

    def test_other_datasets(self):
        with self.assertRaisesRegex(TypeError, "importance of a list: give a dlcache.torch.Dataset"):
            ImportanceSampler([1, 2, 3])
        with self.assertRaisesRegex(TypeError, "with a URL"):
            ImportanceSampler([1, 2, 3], split="train")

    def test_loaders_without_one(self):
        loader = DataLoader(list(range(10)), 2)
        next(iter(loader))
        with self.assertRaisesRegex(TypeError, "needs a sampler that learns.*ShuffleSequentialSampler.*ImportanceSampler"):
            loader.learn([1, 2])


class Lengths(Numbered):
    def test_default(self):
        train = self.dataset()
        self.assertEqual(len(self.sampler(train)), N // 2)
        self.assertEqual(len(self.sampler(train, every=1)), N)
        self.assertEqual(len(self.sampler(train, mode="shade")), N)
        self.assertEqual(len(self.sampler(train, length=31, rank=1, world=4)), 8)

    def test_refused(self):
        train = self.dataset()
        with self.assertRaisesRegex(ValueError, "at least 16 positions .* 64 samples .* 4 epochs"):
            self.sampler(train, length=15)
        with self.assertRaisesRegex(ValueError, "none comes twice"):
            self.sampler(train, length=N + 1)
        with self.assertRaisesRegex(ValueError, "every=0"):
            self.sampler(train, every=0)
        with self.assertRaisesRegex(ValueError, "at least 1 pos"):
            self.sampler(train, mode="shade", length=0)

    def test_one_sample(self):
        one = Subset(self.dataset(), [5])
        for mode in ("coverage", "shade"):
            sampler = self.sampler(one, mode=mode)
            for _ in range(3):
                self.assertEqual(list(sampler), [0])
                sampler.update([0], [3.0])

    def test_no_sample(self):
        with self.assertRaisesRegex(ValueError, "no samples"):
            self.sampler(Subset(self.dataset(), []))


class Drawing(Numbered):
    def test_coverage(self):
        sampler = self.sampler(every=4)
        epochs = [list(sampler) for _ in range(12)]
        for e in epochs:
            self.assertEqual(len(set(e)), N // 2)
        for first in range(9):
            self.assertEqual(set(itertools.chain(*epochs[first:first + 4])), set(range(N)))
        self.assertEqual(len({tuple(e) for e in epochs}), 12)

    def test_shade_follows_weights(self):
        sampler = self.sampler(mode="shade")
        sampler.update(range(N), [1000.0 if i == 17 else 1.0 for i in range(N)])
        drawn = list(itertools.chain(*(sampler for _ in range(5))))
        self.assertGreater(drawn.count(17), 0.8 * len(drawn))
        self.assertLess(sampler.figures.effective, 2)
        self.assertLess(sampler.figures.coverage, 0.5)

    def test_the_same_from_the_same(self):
        first, second = self.sampler(seed=5, job="a"), self.sampler(seed=5, job="b")
        other = self.sampler(seed=6, job="c")
        lists = [list(s) for s in (first, second, other)]
        self.assertEqual(lists[0], lists[1])
        self.assertNotEqual(lists[0], lists[2])
        first.set_epoch(0)
        self.assertEqual(list(first), lists[0])

    def test_a_list_is_drawn_once(self):
        """What is learnt after an epoch was drawn is for the next."""
        sampler = self.sampler(mode="shade")
        told = sampler.indices_of(0).tolist()
        sampler.update(range(N), [1e6] + [1e-6] * (N - 1))
        self.assertEqual(list(sampler), told)
        self.assertGreater(list(sampler).count(0), N - 5)

    def test_epochs(self):
        sampler = self.sampler()
        first, second = list(sampler), list(sampler)
        self.assertEqual(sampler.epoch, 2)
        sampler.set_epoch(1)
        self.assertEqual(list(sampler), second)
        self.assertEqual(sampler.epoch, 1)
        with self.assertRaisesRegex(ValueError, "count from 0"):
            sampler.set_epoch(-1)
        self.assertNotEqual(first, second)

    def test_replication(self):
        """What is resident comes first, and as often as it is said."""
        train = self.dataset()
        resident = set(range(0, N, 3))
        for i in resident:
            train[i]
        for value in (0.5, 1, 1.5, 100):
            sampler = self.sampler(train, mode="shade", replication=value, job="r%d" % (2 * value))
            drawn = list(sampler)
            self.assertEqual(len(drawn), N)
            hits = [i in resident for i in drawn]
            self.assertEqual(sum(hits), sampler.figures.resident)
            self.assertEqual(hits, sorted(hits, reverse=True))
            if value == 100:
                self.assertEqual(sampler.figures.resident_share, 1.0)
        self.assertEqual(sampler.figures.replication, 100)

    def test_figures(self):
        sampler = self.sampler()
        self.assertIsNone(sampler.figures)
        drawn = list(sampler)
        f = sampler.figures
        self.assertEqual((f.epoch, f.positions, f.distinct, f.part, f.forced), (0, N // 2, len(set(drawn)), N, N // 4))
        self.assertEqual((f.coverage, f.used, f.ignored), (0.5, 0, 0))
        self.assertAlmostEqual(f.effective, N, delta=1)
        json.dumps(f.as_dict())


class Scores(Numbered):
    def test_replication_follows(self):
        sampler = self.sampler(mode="shade", replication="auto")
        seen = []
        for score in (10, 11, 12, 12, 5, 4, 3, 2, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18):
            sampler.score(score)
            seen.append(sampler.replication)
        self.assertEqual(seen, [1, 1.5, 2, 2, 1.5, 1, 1, 1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5, 5, 5])
        list(sampler)
        self.assertEqual(sampler.figures.replication, 5)
        with self.assertRaisesRegex(ValueError, "NaN"):
            sampler.score(math.nan)

    def test_fixed(self):
        sampler = self.sampler(mode="shade", replication=2)
        sampler.score(1)
        sampler.score(2)
        self.assertEqual(sampler.replication, 2)

    def test_prefer_follows_waits(self):
        sampler = self.sampler(prefer="auto")
        seen = []
        for waits in ((0, 0), (0.04, 1), (0.10, 2), (0.9, 3), (1.9, 4), (2.9, 5), (3.9, 6), (3.9, 7)):
            sampler.watch(lambda waits=waits: waits)
            list(sampler)
            seen.append(sampler.figures.prefer)
        self.assertEqual(seen, [1, 1, 64, 64, 64, 64, 64, 32])


class Mapping(Numbered):
    """Indices are of the dataset, weights of the samples."""

    def check(self, dataset, sampler=None):
        sampler = sampler or self.sampler(dataset)
        values = self.values(dataset) if hasattr(dataset, "key") else [dataset[i] for i in range(len(dataset))]
        sampler.update(range(len(values)), loss_of(values))
        self.assertEqual(sampler.weights().tolist(), loss_of(values).tolist())
        raw = self.raw_weights(sampler)
        handle = sampler._draws.weights._any()
        for i in range(len(handle)):
            value = number(handle[i])
            self.assertEqual(raw[i], loss_of(value) if value in values else 0, i)
        drawn = list(itertools.chain(*(sampler for _ in range(8))))
        self.assertEqual(set(drawn), set(range(len(values))))
        sampler.update([-1], [0.25])
        self.assertEqual(sampler.weights()[len(values) - 1], 0.25)

    def test_whole(self):
        self.check(self.dataset(None))

    def test_splits(self):
        for split in ("train", "test"):
            self.check(self.dataset(split))
            self.stop()

    def test_subset(self):
        self.check(Subset(self.dataset(), [50, 3, 17, 4, 22, 9]))

    def test_subset_of_a_subset(self):
        self.check(Subset(Subset(self.dataset("test"), range(15, 3, -1)), [0, 5, 7, 2]))

    def test_filter(self):
        self.check(self.dataset(None, is_valid_file=lambda key: int(key[-8:-4]) % 3 == 0))

    def test_url_and_handle(self):
        self.check(self.dataset("test"), self.sampler(self.url("bucket"), split="test", job="u"))
        self.stop()
        self.check(self.dataset(None), self.sampler(self.open("bucket"), job="h"))

    def test_a_sample_listed_twice(self):
        twice = Subset(self.dataset(), [4, 8, 4, 15])
        sampler = self.sampler(twice, every=2)
        for _ in range(6):
            self.assertEqual(set(itertools.chain(sampler, sampler)), {0, 1, 2, 3})
        sampler.update([0], [7.0])
        self.assertEqual(sampler.weights().tolist(), [7, 0, 7, 0])

    def test_set_weights(self):
        part = Subset(self.dataset(), [50, 3, 17])
        sampler, whole = self.sampler(part, job="x"), self.sampler(self.dataset(), job="x")
        whole.update(range(N), [1.0] * N)
        sampler.set_weights([2, 3, 4])
        self.assertEqual(sampler.weights().tolist(), [2, 3, 4])
        self.assertEqual(whole.weights().sum(), N - 3 + 9)
        with self.assertRaisesRegex(ValueError, "2 weights for 3 samples"):
            sampler.set_weights([1, 2])


class Losses(Numbered):
    def setUp(self):
        super().setUp()
        self.train = self.dataset()

    def test_kinds(self):
        sampler = self.sampler(self.train)
        for k, losses in enumerate((torch.tensor([1.0, 2.0]), torch.tensor([[1.0], [2.0]], dtype=torch.float64),
                                    torch.tensor([1, 2]), torch.tensor([1.0, 2.0], requires_grad=True),
                                    torch.tensor([1.0, 2.0], dtype=torch.bfloat16), numpy.array([1.0, 2.0]),
                                    [1, 2.0], [torch.tensor(1.0), torch.tensor(2.0)], torch.tensor([1.0, 0, 2.0])[::2])):
            for indices in ([k, k + 20], numpy.array([k, k + 20], dtype=numpy.uint8), torch.tensor([k, k + 20])):
                sampler.set_weights(torch.zeros(N))
                sampler.update(indices, losses)
                self.assertEqual((sampler.weights()[k], sampler.weights()[k + 20]), (1, 2), losses)
        sampler.update([], [])

    def test_no_losses(self):
        sampler = self.sampler(self.train)
        for losses in ("many", [1, "x"], None, torch.tensor([1j, 2])):
            with self.assertRaises(TypeError):
                sampler.update([0, 1], losses)

    def test_how_many(self):
        sampler = self.sampler(self.train)
        with self.assertRaisesRegex(ValueError, "3 losses for 2 indices"):
            sampler.update([0, 1], [1, 2, 3])
        with self.assertRaisesRegex(ValueError, "1 losses for 2 indices"):
            sampler.update([0, 1], 1.0)

    def test_indices(self):
        sampler = self.sampler(self.train)
        for wrong in ([0, N], [-N - 1, 3]):
            with self.assertRaisesRegex(IndexError, "out of range for 64 samples"):
                sampler.update(wrong, [1, 1])
        with self.assertRaisesRegex(TypeError, "integers"):
            sampler.update([0.5, 1.0], [1, 1])
        self.assertEqual(sampler.weights().count_nonzero(), 0)

    def test_never_handed_out(self):
        """Who knows a loss may say it."""
        sampler = self.sampler(self.train)
        drawn = list(sampler)
        other = next(i for i in range(N) if i not in drawn)
        sampler.update([other], [3.0])
        self.assertEqual(sampler.weights()[other], 3)

    def test_no_numbers(self):
        for rule in ("plain", "rank"):
            sampler = self.sampler(self.train, rule=rule, job=rule)
            list(sampler)
            sampler.update([0, 1, 2, 3], [math.nan, 1.0, math.inf, 0.5])
            w = sampler.weights()
            self.assertEqual(w[0], 0)
            self.assertTrue(0 < w[3] < w[1] < w[2] < math.inf, w[:4])
            self.assertEqual((sampler.figures.used, sampler.figures.ignored), (3, 1))
            self.assertEqual(len(list(sampler)), N // 2)

    def test_negative(self):
        plain, rank = self.sampler(self.train, job="p"), self.sampler(self.train, rule="rank", job="r")
        with self.assertRaisesRegex(ValueError, "negative"):
            plain.update([0, 1], [1.0, -1.0])
        self.assertEqual(plain.weights().count_nonzero(), 0)
        rank.update([0, 1], [1.0, -1.0])
        self.assertGreater(rank.weights()[0], rank.weights()[1])

    def test_equal_zero_and_giant(self):
        for k, losses in enumerate(([1.0] * N, [0.0] * N, [1e30] + [1e-30] * (N - 1), [3e38] * N)):
            for mode in ("coverage", "shade"):
                for rule in ("plain", "rank"):
                    sampler = self.sampler(self.train, mode=mode, rule=rule, job="%s-%s-%d" % (mode, rule, k))
                    sampler.update(range(N), losses)
                    drawn = list(sampler)
                    self.assertEqual(len(drawn), len(sampler))
                    if mode == "coverage":
                        self.assertEqual(len(set(drawn)), N // 2)

    def test_ranks_within_the_batch(self):
        """SHADE's rule: log(rank + 10), and the scale of the first epoch is 1."""
        sampler = self.sampler(self.train, rule="rank")
        list(sampler)
        sampler.update([5, 6, 7], [0.1, 9.0, 3.0])
        for i, r in ((5, 0), (7, 1), (6, 2)):
            self.assertAlmostEqual(sampler.weights()[i].item(), math.log(r + 10), places=4)

    @unittest.skipUnless(torch.cuda.is_available(), "no GPU")
    def test_on_a_gpu(self):
        sampler = self.sampler(self.train)
        sampler.update([0, 1], torch.tensor([1.0, 2.0], device="cuda"))
        sampler.update([1, 2], torch.tensor([5.0, 6.0], device="cuda", dtype=torch.float16))
        self.assertEqual(sampler.weights()[:3].tolist(), [1, 5, 6])


class Loading(Numbered):
    """learn(): the loss of a sample is that of its value."""

    def check(self, loader, sampler, epochs=2, left_out=()):
        seen = set()
        for _ in range(epochs):
            for values in loader:
                loader.learn(loss_of(values))
                seen.update(torch.as_tensor(values).reshape(-1).tolist())
        weights = dict(zip(self.values(self.dataset()), sampler.weights().tolist()))
        self.assertGreater(len(seen), N // 2)
        for value, weight in weights.items():
            known = value in seen and value not in left_out
            self.assertEqual(weight, loss_of(value) if known else 0, value)

    def loader(self, dataset=None, batch_size=7, job=None, **how):
        dataset = dataset or self.dataset()
        sampler = self.sampler(dataset, job=job)
        return DataLoader(dataset, batch_size, sampler=sampler, **how), sampler

    def test_workers(self):
        for workers in (0, 2):
            for order in ("strict", "relaxed"):
                with self.subTest(workers=workers, order=order):
                    self.check(*self.loader(num_workers=workers, order=order, job="%d%s" % (workers, order)))

    def test_drop_last(self):
        self.check(*self.loader(drop_last=True, num_workers=0))

    def test_one_by_one(self):
        self.check(*self.loader(batch_size=None, num_workers=0))

    def test_batch_sampler(self):
        train = self.dataset()
        sampler = self.sampler(train)

        class Own(BatchSampler):
            pass
        for kind in (BatchSampler, Own):
            loader = DataLoader(train, batch_sampler=kind(sampler, 7, False), num_workers=0)
            self.check(loader, sampler)
            sampler.set_weights(torch.zeros(N))

    def test_bad_ones(self):
        self.fill(BAD)
        for how in ("skip", "replace"):
            for workers in (0, 2):
                with self.subTest(how=how, workers=workers):
                    train = self.dataset(on_error=how)
                    loader, sampler = self.loader(train, num_workers=workers, job="%s%d" % (how, workers))
                    values = set()
                    for batch in itertools.chain(loader, loader, loader, loader):
                        loader.learn(loss_of(batch))
                        values.update(batch.tolist())
                    weights = sampler.weights()
                    for i, value in enumerate(self.values(train)):
                        if value in BAD:
                            self.assertEqual(weights[i], 0, "a bad sample has a weight")
                        else:
                            self.assertIn(weights[i], (0, loss_of(value)), value)
                    self.assertGreaterEqual(weights.count_nonzero(), N - len(BAD) - 3)

    def test_subset_with_bad_ones(self):
        self.fill(BAD)
        base = self.dataset(on_error="skip")
        part = Subset(base, list(range(N - 1, 10, -1)))
        loader, sampler = self.loader(part, num_workers=0)
        for batch in itertools.chain(loader, loader, loader, loader):
            loader.learn(loss_of(batch))
        values = self.values(base)
        want = [0 if values[i] in BAD else loss_of(values[i]).item() for i in part.indices]
        self.assertEqual(sampler.weights().tolist(), want)

    def test_how_many(self):
        loader, _ = self.loader(num_workers=0)
        with self.assertRaisesRegex(RuntimeError, "before the first batch"):
            loader.learn([1])
        next(iter(loader))
        with self.assertRaisesRegex(ValueError, "6 losses for a batch of 7 samples"):
            loader.learn([1.0] * 6)
        with self.assertRaisesRegex(ValueError, '1 losses for a batch of 7 samples.*reduction="none"'):
            loader.learn(torch.tensor(3.0))

    def test_other_length(self):
        with self.assertRaisesRegex(ValueError, "sampler is of 20 samples and .* has 64"):
            DataLoader(self.dataset(), 7, sampler=self.sampler(self.dataset("test")))
        with self.assertRaisesRegex(ValueError, "sampler is of 20 samples and the dataset has 64"):
            DataLoader(list(range(N)), 7, sampler=self.sampler(self.dataset("test")))

    def test_other_samples(self):
        """As many, and other ones, or the same in another order."""
        train, turned = self.dataset(), Subset(self.dataset(), list(reversed(range(N))))
        some = Subset(train, range(TEST))
        for loaded, weighed in ((train, turned), (turned, train), (self.dataset("test"), some)):
            with self.assertRaisesRegex(ValueError, "of other samples of .* than those that are loaded"):
                DataLoader(loaded, 7, sampler=self.sampler(weighed))
        with self.assertRaisesRegex(ValueError, "of other samples"):
            DataLoader(train, batch_sampler=torch.utils.data.BatchSampler(self.sampler(turned), 7, False))
        for i in range(N):
            self.write("other/%04d.bin" % i, b"x")
        with self.assertRaisesRegex(ValueError, "of file://.*/other/, and file://.*/bucket/ is loaded"):
            DataLoader(train, 7, sampler=self.sampler(self.url("other")))
        DataLoader(train, 7, sampler=self.sampler(Subset(self.dataset(), range(N))))
        DataLoader(train, 7, sampler=self.sampler(self.url("bucket"), split="train"))

    def test_a_sampler_of_the_users(self):
        class Own(torch.utils.data.SequentialSampler):
            def update(self, indices, losses):
                self.seen = list(zip(indices, losses.tolist()))
        sampler = Own(range(10))
        loader = DataLoader(list(range(10)), 4, sampler=sampler, num_workers=0)
        next(iter(loader))
        loader.learn([4, 3, 2, 1])
        self.assertEqual(sampler.seen, [(0, 4), (1, 3), (2, 2), (3, 1)])

    def test_with_torch(self):
        train = self.dataset()
        sampler = self.sampler(train)
        loader = torch.utils.data.DataLoader(train, 5, sampler=sampler)
        self.assertEqual(len(list(loader)), -(-N // 10))

    def test_the_next_epoch_is_drawn_late(self):
        """With few positions left, once, and kept."""
        loader, sampler = self.loader(num_workers=0)
        batches = iter(loader)
        for _ in batches:
            pass
        told = sampler.indices_of(1).tolist()
        sampler.update(range(N), [1e6] * 5 + [1e-6] * (N - 5))
        values = self.values(self.dataset())
        self.assertEqual([v for b in loader for v in b.tolist()], [values[i] for i in told])

    def test_report(self):
        loader, sampler = self.loader(num_workers=0)
        for epoch in range(3):
            for values in loader:
                loader.learn(loss_of(values))
        report = loader.report()
        self.assertEqual([row.epoch for row in report.by_epoch], [0, 1, 2])
        for row in report.by_epoch:
            self.assertEqual((row.coverage, row.distinct, row.positions), (0.5, N // 2, N // 2))
            self.assertEqual(row.reuse + row.prefetch + row.waited, N // 2)
        self.assertEqual(sum(report.reads.values()), 3 * N // 2)
        self.assertGreater(report.reads["reuse"], 0)
        self.assertGreater(report.reads["prefetch"] + report.reads["waited"], 0)
        distinct = sum(row.fetched for row in report.by_epoch)
        self.assertTrue(N // 2 <= distinct <= N, distinct)
        told = json.loads(report.json())["by_epoch"][-1]
        self.assertEqual((told["coverage"], told["effective"]), (0.5, sampler.figures.effective))
        self.assertIn("reads_per_distinct", told)
        self.assertRegex(str(report), r"50.0 % of the samples, 32 in 32 positions, drawn as from \d+ of equal weight")
        self.assertIn("fetched ahead", str(report))
        self.assertIn(">seen<", plot.svg(report))

    def test_report_of_a_shuffle(self):
        train = self.dataset()
        loader = DataLoader(train, 7, sampler=Shuffle(train), num_workers=0)
        for _ in range(2):
            list(loader)
        report = loader.report()
        self.assertEqual([(r.coverage, r.effective) for r in report.by_epoch], [(1.0, None)] * 2)
        self.assertEqual(report.by_epoch[1].reuse, N)
        self.assertNotIn("equal weight", str(report))


class Native(Numbered):
    def loader(self, split="train", **how):
        how = {"raw": "int64", "threads": 2, **how}
        return TensorLoader(self.url("bucket"), 7, (1,), dtype="int64", split=split, **how)

    def test_learn(self):
        sampler = self.sampler(self.url("bucket"), split="train")
        values, seen = self.values(self.dataset()), set()
        with self.loader(sampler=sampler) as loader:
            for _ in range(3):
                for tensors, _ in loader:
                    loader.learn(loss_of(tensors))
                    seen.update(tensors.reshape(-1).tolist())
            report = loader.report()
        self.assertEqual(sampler.weights().tolist(),
                         [loss_of(v).item() if v in seen else 0.0 for v in values])
        self.assertEqual([row.coverage for row in report.by_epoch], [0.5] * 3)
        self.assertIn("equal weight", str(report))

    def test_a_torch_dataset_names_the_samples(self):
        test = self.dataset("test")
        sampler = self.sampler(test)
        with self.loader("test", sampler=sampler) as loader:
            for tensors, _ in loader:
                loader.learn(loss_of(tensors))
        weights = sampler.weights().tolist()
        for value, weight in zip(self.values(test), weights):
            self.assertIn(weight, (0, loss_of(value)))
        self.assertEqual(sum(w > 0 for w in weights), TEST // 2)

    def test_bad_ones(self):
        self.fill(BAD)
        for how in ("skip", "replace"):
            sampler = self.sampler(self.url("bucket"), split="train", job=how)
            with self.loader(sampler=sampler, on_bad=how) as loader:
                for tensors, _ in itertools.chain(loader, loader, loader, loader):
                    loader.learn(loss_of(tensors))
            for value, weight in zip(self.values(self.dataset()), sampler.weights().tolist()):
                self.assertEqual(weight, 0 if value in BAD else loss_of(value), (how, value))

    def test_refused(self):
        sampler = self.sampler(self.url("bucket"), split="test")
        with self.assertRaisesRegex(ValueError, "sampler is of 20 samples and .* has 64"):
            self.loader(sampler=sampler)
        for wrong in (Subset(self.dataset(), list(reversed(range(N)))), Subset(self.dataset(None), range(1, N + 1))):
            with self.assertRaisesRegex(ValueError, "of other samples"):
                self.loader(sampler=self.sampler(wrong))
        with self.loader() as loader:
            next(iter(loader))
            with self.assertRaisesRegex(TypeError, "needs a sampler that learns"):
                loader.learn([1] * 7)
        sampler = self.sampler(self.url("bucket"), split="train")
        with self.loader(sampler=sampler, output="numpy") as loader:
            with self.assertRaisesRegex(RuntimeError, "before the first batch"):
                loader.learn([1])
            next(iter(loader))
            with self.assertRaisesRegex(ValueError, "8 losses for a batch of 7"):
                loader.learn([1] * 8)

    def test_resume(self):
        def run(state, batches, job):
            sampler = self.sampler(self.url("bucket"), split="train", job=job)
            with self.loader(sampler=sampler) as loader:
                if state is not None:
                    loader.load_state_dict(state)
                seen = []
                for tensors, _ in itertools.islice(itertools.chain(loader, loader, loader), batches):
                    loader.learn(loss_of(tensors))
                    seen.append(tensors.reshape(-1).tolist())
                return seen, loader.state_dict(), sampler.weights().tolist()
        whole, _, weights = run(None, 13, "one")
        first, state, _ = run(None, 8, "two")
        rest, _, again = run(state, 5, "three")
        self.assertEqual(first + rest, whole)
        self.assertEqual(again, weights)


class State(Numbered):
    def run_loader(self, loader, batches, losses=loss_of):
        """Reads on and learns; returns what came."""
        seen = []
        while len(seen) < batches:
            for values in itertools.islice(loader, batches - len(seen)):
                loader.learn(losses(values))
                seen.append(values.tolist())
        return seen

    def loader(self, job, **how):
        train = self.dataset()
        sampler = self.sampler(train, rule="rank", job=job, **how)
        return DataLoader(train, 7, sampler=sampler, num_workers=0), sampler

    def test_exact(self):
        for after in (0, 1, 3, 5, 8):
            for mode in ("coverage", "shade"):
                with self.subTest(after=after, mode=mode):
                    name = "%s%d" % (mode, after)
                    list(self.dataset())  # who is resident decides what shade draws
                    one, _ = self.loader("a" + name, mode=mode)
                    whole = self.run_loader(one, 22)
                    two, _ = self.loader("b" + name, mode=mode)
                    first = self.run_loader(two, after)
                    state = two.state_dict()
                    three, sampler = self.loader("c" + name, mode=mode)
                    three.load_state_dict(pickle.loads(pickle.dumps(state)))
                    self.assertEqual(first + self.run_loader(three, 22 - after), whole)

    def test_weights_and_scale(self):
        one, before = self.loader("a")
        self.run_loader(one, 7)
        two, after = self.loader("b")
        two.load_state_dict(one.state_dict())
        self.assertEqual(after.weights().tolist(), before.weights().tolist())
        self.assertEqual(after.state_dict()["scale"], before.state_dict()["scale"])
        after.update([0, 1], [1.0, 2.0])
        before.update([0, 1], [1.0, 2.0])
        self.assertEqual(after.weights()[:2].tolist(), before.weights()[:2].tolist())

    def test_auto_replication_goes_on(self):
        one = self.sampler(mode="shade", replication="auto", job="a")
        for score in (1, 2, 3):
            one.score(score)
        two = self.sampler(mode="shade", replication="auto", job="b")
        two.load_state_dict(one.state_dict())
        two.score(4)
        self.assertEqual(two.replication, 2.5)

    def test_other_ranks(self):
        """What is left of the epoch is drawn anew: as many positions as there were, no sample on two ranks."""
        one, _ = self.loader("a", length=40)
        self.run_loader(one, 2)
        state = one.state_dict()
        for world in (2, 3):
            parts = []
            for rank in range(world):
                loader, sampler = self.loader("w%d-%d" % (world, rank), length=40, rank=rank, world=world)
                loader.load_state_dict(state)
                parts.append([v for b in loader for v in b.tolist()])
                self.assertEqual(len(parts[-1]), -(-(40 - 14) // world))
                self.assertEqual(sampler.epoch, 1)
                self.assertEqual(len(list(sampler)), -(-40 // world))
            drawn = list(itertools.chain(*parts))
            self.assertLessEqual(len(drawn) - len(set(drawn)), 2 if N % world else 0)  # what pads

    def test_one_rank_saves_for_all(self):
        def of(rank, job):
            train = self.dataset()
            sampler = self.sampler(train, rank=rank, world=2, job=job)
            return DataLoader(train, 5, sampler=sampler, num_workers=0)
        zero = of(0, "a")
        first = next(iter(zero)).tolist()
        state = zero.state_dict()
        rest = [[v for b in self.resumed(of(rank, "b"), state) for v in b.tolist()] for rank in (0, 1)]
        self.assertEqual([len(r) for r in rest], [N // 4 - 5] * 2)
        self.assertEqual(len(set(first + rest[0])), N // 4)
        self.assertFalse(set(rest[0]) & set(rest[1]))

    def resumed(self, loader, state):
        loader.load_state_dict(state)
        return loader

    def test_another_batch_size(self):
        one, _ = self.loader("a")
        whole = [v for b in one for v in b.tolist()]
        two, _ = self.loader("b")
        state = (self.run_loader(two, 2), two.state_dict())[1]
        train = self.dataset()
        three = DataLoader(train, 5, sampler=self.sampler(train, rule="rank", job="c"), num_workers=0)
        three.load_state_dict(state)
        self.assertEqual([v for b in three for v in b.tolist()], whole[14:])

    def test_set_epoch_to_another(self):
        one, _ = self.loader("a")
        self.run_loader(one, 2)
        two, sampler = self.loader("b")
        two.load_state_dict(one.state_dict())
        sampler.set_epoch(3)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            self.assertEqual(len(list(two)), len(two))
        self.assertIn("set_epoch() said [3]", str(said[-1].message))

    def test_alone(self):
        """Without one of our loaders, who reads says how far it was."""
        one = self.sampler(job="a")
        drawn = list(one)
        one.set_epoch(0)
        state = dict(one.state_dict(), start=11)
        two = self.sampler(job="b")
        two.load_state_dict(state)
        self.assertEqual(list(two), drawn[11:])
        self.assertEqual(len(list(two)), len(drawn))

    def test_of_something_else(self):
        state = self.sampler(job="a").state_dict()
        for how, word in (({"mode": "shade"}, "mode=coverage, and here is mode=shade"),
                          ({"rule": "rank"}, "rule="), ({"every": 3}, "every="), ({"length": 40}, "length=")):
            with self.assertRaisesRegex(ValueError, word):
                self.sampler(job="b", **how).load_state_dict(state)
        with self.assertRaisesRegex(ValueError, "n=64, and here is n=20"):
            self.sampler(self.dataset("test")).load_state_dict(state)
        with self.assertRaisesRegex(ValueError, "version 7"):
            self.sampler().load_state_dict(dict(state, version=7))

    def test_the_seed_comes_along(self):
        one, two = self.sampler(seed=5, job="a"), self.sampler(seed=9, job="b")
        list(two)
        two.load_state_dict(one.state_dict())
        self.assertEqual([list(two), list(two)], [list(one), list(one)])

    def test_after_a_fork(self):
        sampler = self.sampler(job="a")
        first = list(sampler)
        sampler.update([3], [9.0])
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                os.write(write, pickle.dumps((sampler.weights()[3].item(), list(sampler))))
            finally:
                os._exit(0)
        os.close(write)
        with open(read, "rb") as f:
            weight, drawn = pickle.loads(f.read())
        os.waitpid(pid, 0)
        self.assertEqual((weight, drawn), (9, list(sampler)))
        self.assertNotEqual(drawn, first)

    def test_torch_saves_it(self):
        loader, _ = self.loader("a")
        self.run_loader(loader, 3)
        torch.save(loader.state_dict(), self.path("state"))
        again, _ = self.loader("b")
        again.load_state_dict(torch.load(self.path("state")))
        other, _ = self.loader("c")
        self.assertEqual(self.run_loader(again, 1), self.run_loader(other, 4)[3:])

    def test_pickled(self):
        sampler = self.sampler(job="a")
        first = list(sampler)
        sampler.update([3], [9.0])
        again = pickle.loads(pickle.dumps(sampler))
        self.assertEqual((again.epoch, again.weights()[3]), (1, 9))
        self.assertEqual(list(again), list(sampler))
        again.set_epoch(0)
        self.assertEqual(list(again), first)


class Ranks(Numbered):
    def test_parts(self):
        """Whatever ranks have learnt: no sample on two of them, equal lengths."""
        train = self.dataset()
        for mode in ("coverage", "shade"):
            for world in (2, 3, 4):
                samplers = [self.sampler(train, mode=mode, rank=r, world=world, job="%s-%d-%d" % (mode, world, r))
                            for r in range(world)]
                for epoch in range(3):
                    lists = [list(s) for s in samplers]
                    self.assertEqual(len({len(drawn) for drawn in lists}), 1)
                    for a, b in itertools.combinations(lists, 2):
                        shared = set(a) & set(b)
                        self.assertLessEqual(len(shared), 2 if N % world else 0)  # what pads
                    samplers[0].update(lists[0], [float(e + 1) for e in range(len(lists[0]))])
                    # rank 1 stops reporting

    def test_processes(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        context = multiprocessing.get_context("spawn")
        results = context.SimpleQueue()
        ranks = [context.Process(target=one_rank, args=(r, 2, port, self.url("bucket"), results)) for r in (0, 1)]
        for p in ranks:
            p.start()
        told = dict(results.get() for _ in ranks)
        for p in ranks:
            p.join()
            self.assertEqual(p.exitcode, 0)
        self.assertEqual(told[0]["job"], told[1]["job"])
        for a, b in zip(told[0]["lists"], told[1]["lists"]):
            self.assertEqual(len(a), len(b))
            self.assertFalse(set(a) & set(b))
            self.assertEqual(len(set(a + b)), N // 2)
        for rank in (0, 1):
            seen = set(told[0]["lists"][0] + told[1]["lists"][0])
            self.assertEqual({i for i, w in enumerate(told[rank]["weights"]) if w > 0}, seen)


def one_rank(rank, world, port, url, results):
    torch.distributed.init_process_group("gloo", init_method="tcp://127.0.0.1:%d" % port, rank=rank, world_size=world)
    train = Dataset(url, "train", decode=number)
    sampler = ImportanceSampler(train, rule="plain", prefer=1)
    loader = DataLoader(train, 5, sampler=sampler, num_workers=0)
    values = {int(train.key(i)[-8:-4]): i for i in range(len(train))}
    lists, weights = [], None
    for epoch in range(4):
        lists.append([])
        for batch in loader:
            lists[-1] += [values[v] for v in batch.tolist()]
            loader.learn(loss_of(batch))
        torch.distributed.barrier()
        weights = weights or sampler.weights().tolist()
        torch.distributed.barrier()
    results.put((rank, {"lists": lists, "weights": weights, "job": sampler._draws.weights.spec.job}))
    torch.distributed.destroy_process_group()


class Daemons(Numbered):
    def test_killed_between_update_and_draw(self):
        train = self.dataset()
        loader = DataLoader(train, 7, sampler=self.sampler(train), num_workers=0)
        sampler = loader.sampler
        for values in loader:
            loader.learn(loss_of(values))
        before = sampler.weights().tolist()
        self.stop()
        self.assertEqual(sampler.weights().tolist(), before)
        self.assertEqual(len(sampler.indices_of(5)), N // 2)
        values = [v for b in loader for v in b.tolist()]
        self.assertEqual(len(set(values)), N // 2)
        self.assertEqual(sampler.weights().tolist(), before)


if __name__ == "__main__":
    unittest.main()
