# SPDX-License-Identifier: Apache-2.0
import collections
import json
import unittest

import torch

from dlcache.torch.epoch_times import ROWS, CopyClock, EpochClock
from dlcache.torch.gpu_monitor import GpuFigures
from dlcache.torch.report import ReportBuilder


class Times(unittest.TestCase):
    def test_each_epoch_and_all(self):
        c = EpochClock()
        c.add(1.0, 0.0, 0.0, 0.0)
        c.add(0.5, 0.2, 0.1, 2.0)  # the loop itself copied for 0.1 s of its step
        c.epoch_end()
        c.add(0.25, 0.0, 0.0, 1.0)
        c.epoch_end()
        first, second = c.rows
        self.assertEqual((first.epoch, first.load_s, first.copy_s, first.step_s), (1, 1.5, 0.2, 1.9))
        self.assertEqual((second.epoch, second.load_s, second.copy_s, second.step_s), (2, 0.25, 0.0, 1.0))
        self.assertAlmostEqual(c.step_s, 2.9)
        self.assertAlmostEqual(c.copy_s, 0.2)

    def test_bounded(self):
        c = EpochClock()
        for _ in range(5 * ROWS):
            c.epoch_end()
        self.assertLessEqual(len(c.rows), ROWS)
        self.assertGreater(len(c.rows), ROWS // 4)

    def test_in_the_report(self):
        b = ReportBuilder()
        b.batch(4, 0.5, 0.0, 2)
        b.batch(4, 0.1, 2.0, 2, copied_s=(0.75, 0.5))
        b.epoch_end(step_s=1.0, copied_s=(0.25, 0.25))
        r = b.report(gpus=[GpuFigures(0, "H200", 0.5, 2 * 10**9, 10**11)])
        self.assertAlmostEqual(r.copy_s, 1.0)
        self.assertAlmostEqual(r.step_s, 2.25)
        told = json.loads(r.json())
        self.assertEqual(told["times"], [{"epoch": 1, "load_s": 0.6, "copy_s": 1.0, "step_s": 2.25}])
        self.assertEqual(told["gpus"][0]["utilisation"], 0.5)
        self.assertIn("GPU 0     50.0 % busy, 2.0 GB of 100.0 GB at most: H200", str(r))
        self.assertIn("copy 1", str(r))

    def test_without_gpus_and_copies_nothing_is_said(self):
        b = ReportBuilder()
        b.batch(4, 0.5, 1.0, 2)
        self.assertEqual(b.report().gpus, [])
        self.assertNotIn("GPU", str(b.report()))
        self.assertNotIn("copy", str(b.report()))


class Copies(unittest.TestCase):
    def test_structure_and_time(self):
        pair = collections.namedtuple("pair", "image label")
        x = torch.ones(3)
        c = CopyClock()
        batch = [pair(x, 7), {"a": (x, "text")}]
        got = c.copy(batch, "meta")
        self.assertEqual((got[0].image.device.type, got[0].label), ("meta", 7))
        self.assertEqual((got[1]["a"][0].device.type, got[1]["a"][1]), ("meta", "text"))
        self.assertIs(type(got[0]), pair)
        copy_s, host_s = c.take()
        self.assertGreater(copy_s, 0)
        self.assertGreaterEqual(host_s, copy_s)
        self.assertEqual(c.take(), (0.0, 0.0))

    def test_a_loader_tells_them(self):
        import dlcache.torch

        loader = dlcache.torch.DataLoader(list(range(40)), batch_size=4, num_workers=0)
        for _ in range(2):
            for batch in loader:
                self.assertTrue(torch.equal(loader.copy(batch, "cpu"), batch))
        r = loader.report()
        self.assertEqual([t.epoch for t in r.times], [1, 2])
        self.assertGreater(min(t.copy_s for t in r.times), 0)
        self.assertGreater(min(t.step_s for t in r.times), 0)
        self.assertAlmostEqual(sum(t.load_s for t in r.times), r.waited_s)


if __name__ == "__main__":
    unittest.main()
