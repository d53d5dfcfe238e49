# SPDX-License-Identifier: Apache-2.0
# timeout: 180
"""Loaders in relaxed orders that share a daemon whose memory holds a part of the data."""
import gc
import itertools
import os
import unittest
from unittest import mock

import package_case
import torch

from dlcache.torch import DataLoader, Dataset, Shuffle
from dlcache.torch.order.order_client import OrderClient

N, SIZE, BATCH = 240, 4000, 7


def number(view):
    return int(bytes(view[:8]))


class Relaxed(package_case.Case):
    def setUp(self):
        super().setUp()
        os.environ["DLCACHE_MEMORY"] = "512KB"
        os.environ["DLCACHE_DISK"] = "0"
        for i in range(N):
            self.write("bucket/%03d.bin" % i, b"%08d" % i + bytes(SIZE - 8))
        self.handle = self.open("bucket")

    def loader(self, seed, num_workers=0, order="relaxed", sampler=None, **how):
        dataset = Dataset(self.url("bucket", "?latency=2ms"), decode=number)
        loader = DataLoader(dataset, batch_size=BATCH, sampler=sampler or Shuffle(N, seed=seed), order=order,
                            num_workers=num_workers, **how)
        self.addCleanup(gc.collect)
        return loader

    def numbers(self, batches):
        return torch.cat(list(batches)).tolist()

    def swaps(self):
        """How many there were, and none that the daemon did not understand."""
        counters = self.handle.daemon_stats()["counters"]
        self.assertEqual(counters["client_nonsense"], 0)
        return counters["swaps"]

    def assertOnce(self, got, n=N):
        self.assertEqual(sorted(got), list(range(n)))

    def test_each_once(self):
        for workers in (0, 2):
            loaders = [self.loader(seed, workers) for seed in (1, 2)]
            before = self.swaps()
            for epoch in range(4):
                got = list(zip(*loaders))
                for k in range(2):
                    self.assertOnce(self.numbers(batches[k] for batches in got))
            self.assertGreater(self.swaps(), before)

    def test_resumes(self):
        for workers in (0, 2):
            other, loader = self.loader(3, workers), self.loader(4, workers)
            self.numbers(other)
            for turn in range(3):  # in epoch 0, 1 and 2, each time in another loader
                it, got = iter(loader), []
                for cut in (3, 5, 11):
                    got += self.numbers(itertools.islice(it, cut))
                    self.numbers(itertools.islice(other, 9))
                    state = loader.state_dict()
                    self.assertEqual(state["epoch"], turn)
                    loader = self.loader(4, workers)
                    loader.load_state_dict(state)
                    it = iter(loader)
                self.assertOnce(got + self.numbers(it))

    def test_resumes_in_a_strict_order_and_without_a_daemon(self):
        self.numbers(self.loader(5))
        loader = self.loader(6)
        it = iter(loader)
        got = self.numbers(itertools.islice(it, 10))
        state = loader.state_dict()
        self.assertTrue(state["swaps"])
        strict = self.loader(6, order="strict")
        strict.load_state_dict(state)
        self.assertOnce(got + self.numbers(strict))
        listed = DataLoader(list(range(N)), batch_size=BATCH, sampler=Shuffle(N, seed=6), num_workers=0)
        listed.load_state_dict(state)
        self.assertOnce(got + self.numbers(listed))

    def test_what_cannot_resume(self):
        self.numbers(self.loader(5))
        loader = self.loader(6)
        next(iter(loader))
        state = loader.state_dict()
        self.assertTrue(state["swaps"])
        for how in ({"batch_size": BATCH + 1, "sampler": Shuffle(N, seed=6)},
                    {"batch_size": BATCH, "sampler": Shuffle(N, seed=6, rank=0, world=2)}):
            with self.assertRaisesRegex(ValueError, "relaxed order"):
                DataLoader(list(range(N)), **how).load_state_dict(state)
        state["rank"] = 1
        with self.assertRaisesRegex(ValueError, "each rank resumes its own"):
            loader.load_state_dict(state)

    def test_broken_off_and_begun_again(self):
        """With workers that make the next epoch ahead, which then begins anew."""
        for workers in (0, 2):
            loader = self.loader(7, workers, drop_last=True)
            whole = N // BATCH * BATCH
            for stop in (4, 34, 33, 1):
                self.numbers(itertools.islice(loader, stop))
                got = self.numbers(loader)
                self.assertEqual((len(set(got)), len(got)), (whole, whole))
                loader.dataset.transform = None  # set: workers are started anew
                got = self.numbers(loader)
                self.assertEqual((len(set(got)), len(got)), (whole, whole))
        self.assertGreater(self.swaps(), 0)

    def test_the_same_epoch_again(self):
        """set_epoch() says it once, and the epoch comes again and again, whole or in part."""
        for how in ({"num_workers": 0}, {"num_workers": 2}, {"num_workers": 2, "persistent_workers": False}):
            for stop in (3, N):
                other, loader = self.loader(12, 0), self.loader(13, **how)
                self.numbers(other)
                for epoch in (0, 1, 0):
                    loader.sampler.set_epoch(epoch)
                    for _ in range(2):
                        self.numbers(itertools.islice(loader, stop))
                        self.numbers(itertools.islice(other, 5))
                    self.assertOnce(self.numbers(loader))
        self.assertGreater(self.swaps(), 0)

    def test_the_first_batch_cannot_be_dealt(self):
        class Broken(OrderClient):
            def _take(self, plan, first, last):
                raise ValueError("not now")

        with mock.patch("dlcache.torch.loader.OrderClient", Broken):
            for workers in (0, 2):
                loader = self.loader(14, workers)
                with self.assertWarnsRegex(UserWarning, "not now"):
                    self.assertOnce(self.numbers(loader))
                self.assertOnce(self.numbers(loader))

    def test_losses_meet_their_samples(self):
        class Learns(Shuffle):
            def update(self, indices, losses):
                self.learnt = list(indices), losses.tolist()

        for workers in (0, 2):
            other, loader = self.loader(15), self.loader(16, workers, sampler=Learns(N, seed=16))
            before = self.swaps()
            for batch in itertools.chain(loader, loader):
                self.numbers(itertools.islice(other, 1))
                loader.learn(batch.float())
                self.assertEqual(*loader.sampler.learnt)
                self.assertEqual(loader.sampler.learnt[0], batch.tolist())
            self.assertGreater(self.swaps(), before)

    def test_the_state_outlives_the_workers(self):
        loader = self.loader(8, 2)
        it = iter(loader)
        got = self.numbers(itertools.islice(it, 9))
        del it
        loader.num_workers = 0
        state = loader.state_dict()
        loader.load_state_dict(state)
        self.assertOnce(got + self.numbers(loader))
        self.assertOnce(self.numbers(loader))

    def test_the_daemon_is_lost(self):
        for workers in (0, 2):
            other, loader = self.loader(10, workers), self.loader(11, workers)
            self.numbers(other)
            it = iter(loader)
            got = self.numbers(itertools.islice(it, 9))
            self.stop()
            got += self.numbers(itertools.islice(it, 9))
            loader.report()
            self.numbers(other)
            self.assertOnce(got + self.numbers(it))
            self.assertOnce(self.numbers(loader))

    def test_sequential_stays(self):
        self.numbers(self.loader(9))
        dataset = Dataset(self.url("bucket", "?latency=2ms"), decode=number)
        loader = DataLoader(dataset, batch_size=BATCH, order="relaxed", num_workers=0)
        self.assertEqual(self.numbers(loader), list(range(N)))


if __name__ == "__main__":
    unittest.main()
