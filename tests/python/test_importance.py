# SPDX-License-Identifier: Apache-2.0
"""dlcache.Dataset: weights of samples, and lists drawn by them."""
import array
import struct
import threading
import unittest

import package_case
import numpy
import torch

import dlcache

N = 60
COVERAGE, SHADE = range(2)
RANK, PLAIN = range(2)


def begin(ds, mode=COVERAGE, rule=PLAIN, rank=0, world=1, seed=1, first=0, count=0, length=0, every=0, replication=0.0,
          prefer=0.0, job=None, samples=None):
    ds.importance(mode, rule, rank, world, seed, first, count, length, every, replication, prefer, job, samples)
    return ds


class Importance(package_case.Case):
    def setUp(self):
        super().setUp()
        for i in range(N):
            self.write("bucket/%02d.bin" % i, bytes([i]) * 10)
        self.ds = self.open("bucket")

    def test_before_it_is_begun(self):
        for call in (lambda: self.ds.draw(0), lambda: self.ds.learn(0, [1], [1.0]), lambda: self.ds.weights(0, 1),
                     lambda: self.ds.set_weights(0, [1.0])):
            with self.assertRaisesRegex(ValueError, "dlc_importance"):
                call()

    def test_losses_of_all_kinds(self):
        begin(self.ds)
        want = (3, 0, 2.0)
        self.assertEqual(self.ds.learn(0, [1, 2, 3], [1.0, 2.0, 3.0]), want)
        self.assertEqual(self.ds.learn(0, numpy.array([1, 2, 3]), numpy.array([1, 2, 3], "float32")), want)
        self.assertEqual(self.ds.learn(0, array.array("q", [1, 2, 3]), numpy.array([1, 2, 3], "float64")), want)
        self.assertEqual(self.ds.learn(0, torch.tensor([1, 2, 3]), torch.tensor([1.0, 2.0, 3.0])), want)
        self.assertEqual(self.ds.learn(0, numpy.array([1, 2, 3]), numpy.arange(6, dtype="float32")[::2] / 2 + 1), want)
        self.assertEqual(self.ds.learn(0, [-1], [float("nan")]), (0, 1, 0.0))
        self.assertEqual(self.ds.learn(0, [], []), (0, 0, 0.0))
        self.assertEqual(struct.unpack("5f", self.ds.weights(0, 5)), (0, 1, 2, 3, 0))

    def test_losses_that_cannot_be(self):
        begin(self.ds)
        for samples, losses in (([1], []), ([], [1.0]), ([1, 2], [1.0, 2.0, 3.0]), ([1], [-1.0])):
            with self.assertRaises(ValueError):
                self.ds.learn(0, samples, losses)
        with self.assertRaises(IndexError):
            self.ds.learn(0, [N], [1.0])
        for losses in (["x"], None, 1.0, [1.0] * 1000 + ["x"]):
            with self.assertRaises(TypeError):
                self.ds.learn(0, [1], losses)
        for weights in ([None], [1.0] * 1000 + [None], None):
            with self.assertRaises(TypeError):
                self.ds.set_weights(0, weights)
        self.assertEqual(self.ds.weights(0, N), bytes(4 * N))

    def test_draws(self):
        begin(self.ds, every=3)
        drawn, figures = self.ds.draw(4)
        self.assertEqual((drawn.format, len(drawn), len(set(drawn))), ("Q", N // 2, N // 2))
        self.assertEqual(sorted(figures), ["distinct", "effective", "forced", "part", "resident"])
        self.assertEqual((figures["distinct"], figures["forced"], figures["part"]), (N // 2, N // 3, N))
        self.assertAlmostEqual(figures["effective"], N)
        self.assertEqual(self.ds.draw(4)[0], drawn)
        self.ds.follow(drawn)
        self.assertEqual([self.ds.next()[0] for _ in range(N // 2)], list(drawn))
        with self.assertRaises((ValueError, OverflowError)):
            self.ds.draw(-1)
        with self.assertRaises(TypeError):
            self.ds.draw("1")

    def test_subsets(self):
        for samples in ([50, 3, 7], numpy.array([50, 3, 7]), (50, 3, -53)):
            begin(self.ds, samples=samples, length=3)
            drawn, figures = self.ds.draw(0)
            self.assertEqual((sorted(drawn), figures["part"]), ([0, 1, 2], 3))
        with self.assertRaises(IndexError):
            begin(self.ds, samples=[1, N])
        with self.assertRaises(TypeError):
            begin(self.ds, samples=["1"])

    def test_save_and_bring_back(self):
        begin(self.ds, mode=SHADE, rule=RANK)
        self.ds.learn(0, range(N), [float(i) for i in range(N)])
        weights, scale = self.ds.weights(0, N), self.ds.scale()
        drawn = self.ds.draw(1)[0]
        other = begin(self.open("bucket"), mode=SHADE, rule=RANK, job="other")
        self.assertNotEqual(other.draw(1)[0], drawn)
        other.set_weights(0, memoryview(weights).cast("f"))
        other.set_scale(*scale)
        self.assertEqual((other.weights(0, N), other.scale(), other.draw(1)[0]), (weights, scale, drawn))
        other.learn(1, [3, 4], [2.0, 1.0])
        self.ds.learn(1, [3, 4], [2.0, 1.0])
        self.assertEqual(other.weights(0, N), self.ds.weights(0, N))

    def test_threads(self):
        begin(self.ds)
        wrong = []

        def learns(k):
            try:
                for epoch in range(50):
                    self.ds.learn(epoch, range(k, N, 4), [k + 1.0] * (N // 4))
                    self.ds.draw(epoch)
            except Exception as e:  # noqa: BLE001
                wrong.append(e)

        threads = [threading.Thread(target=learns, args=(k,)) for k in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(wrong, [])
        self.assertEqual(struct.unpack("%df" % N, self.ds.weights(0, N)), tuple(i % 4 + 1 for i in range(N)))

    def test_closed(self):
        begin(self.ds)
        self.ds.close()
        for call in (lambda: begin(self.ds), lambda: self.ds.draw(0), lambda: self.ds.learn(0, [], []),
                     lambda: self.ds.weights(0, 0), lambda: self.ds.set_weights(0, []), self.ds.scale,
                     lambda: self.ds.set_scale(0.0, 0.0, 0.0, 0, 0)):
            with self.assertRaisesRegex(ValueError, "closed"):
                call()


if __name__ == "__main__":
    unittest.main()
