# SPDX-License-Identifier: Apache-2.0
# timeout: 180
"""The number of workers, against every fixed one, in a model of a loader (loader_model.py).

A scene says what a batch costs (waiting, a shared bucket, CPU), what a step costs (a GPU's time or
CPU), cores and jitter. The best fixed number is known by trying; auto must come within 5 % of it.
"""
import dataclasses
import math
import unittest

from dlcache.torch.pipeline.autoscale import Autoscaler
from loader_model import Scene, run

NUMBERS = (1, 2, 3, 5, 8, 16)
WITHIN = 0.95
LOADS = {
    "io, load-bound": dict(io_s=0.1, cpu_s=0.002, step_s=0.002),
    "io, balanced": dict(io_s=0.1, cpu_s=0.002, step_s=0.02),
    "io and cpu, load-bound": dict(io_s=0.03, cpu_s=0.03, step_s=0.001),
    "cpu, load-bound": dict(cpu_s=0.1, step_s=0.002),
    "cpu, training on the same cores": dict(cpu_s=0.1, step_cpu_s=0.03),
    "cpu, both alike": dict(cpu_s=0.05, step_cpu_s=0.05),
    "bucket": dict(io_s=0.02, bucket_s=0.03, cpu_s=0.001, step_s=0.001),
    "bucket and cpu": dict(io_s=0.01, bucket_s=0.02, cpu_s=0.02, step_s=0.001),
    "compute-bound": dict(cpu_s=0.03, step_s=0.05),
    "just enough": dict(cpu_s=0.05, step_s=0.052),
    "long tail": dict(cpu_s=0.02, step_s=0.03, tail=8, tail_every=20),
}


def scenes(*jitters):
    for cores in (2, 4):
        for jitter in jitters:
            for name, load in LOADS.items():
                scene = Scene(cores=cores, jitter=jitter, **load)
                yield f"{name}, {cores} cores, +-{jitter}", scene


def scaler(scene):
    return Autoscaler(scene.cores, scene.limit, min(scene.cores, scene.limit, 4))


def best(scene, batches):
    """Batches per second of the best fixed number."""
    return max(run(scene, batches, n).rate() for n in NUMBERS)


class AgainstFixed(unittest.TestCase):
    def test_short_runs(self):
        """A hundred batches: from the twentieth on as fast as the best number in a longer run."""
        for name, scene in scenes(0.1, 0.3):
            with self.subTest(name):
                rates = [run(scene, 100, scaler(scene), seed).rate(20) for seed in range(6)]
                self.assertGreater(sum(rates) / len(rates), WITHIN * best(scene, 500))

    def test_long_runs(self):
        """Two thousand batches, the beginning and all trials included."""
        for name, scene in scenes(0.3):
            with self.subTest(name):
                auto = run(scene, 2000, scaler(scene)).rate()
                self.assertGreater(auto, WITHIN * best(scene, 2000))

    def test_sixteen_cores(self):
        for name in ("io, load-bound", "cpu, load-bound", "bucket", "compute-bound"):
            scene = Scene(cores=16, limit=32, **LOADS[name])
            with self.subTest(name):
                rate = max(run(scene, 1000, n).rate() for n in (4, 8, 16, 17, 24, 32))
                self.assertGreater(run(scene, 1000, scaler(scene)).rate(), WITHIN * rate)

    def test_changes(self):
        """Steps ten times as short, as long, as short; bucket, then cached; a dearer transform."""
        steps = Scene(io_s=0.1, cpu_s=0.005, step_s=0.1, phases=(
            (200, {"step_s": 0.01}), (800, {"step_s": 0.1}), (1400, {"step_s": 0.01})))
        cached = Scene(io_s=0.2, cpu_s=0.005, step_s=0.002, phases=(
            (700, {"io_s": 0.0, "cpu_s": 0.05}),))
        dearer = Scene(io_s=0.15, cpu_s=0.01, step_s=0.02, jitter=0.3, phases=(
            (250, {"io_s": 0.0}), (700, {"cpu_s": 0.11})))
        for scene in (steps, cached, dearer, dataclasses.replace(steps, jitter=0.3)):
            with self.subTest(scene=scene):
                auto = run(scene, 2000, scaler(scene)).rate()
                self.assertGreater(auto, WITHIN * best(scene, 2000))


class Frugal(unittest.TestCase):
    def test_compute_bound(self):
        """Nothing stalls, and nobody is there for nothing."""
        cases = ((0.03, 0.05, 1), (0.05, 0.052, 2), (0.001, 1.0, 1), (0.1, 0.05, 3))
        for busy, step, most in cases:
            with self.subTest(busy=busy, step=step):
                scene = Scene(cores=8, cpu_s=busy, step_s=step)
                out = run(scene, 600, scaler(scene))
                self.assertLessEqual(out.workers[-1], most)
                self.assertLess(out.stalled(20), 0.005)

    def test_bucket_bound(self):
        """When more did not help they go again; trials become rare."""
        for cores in (2, 4):
            scene = Scene(cores=cores, **LOADS["bucket"])
            out = run(scene, 2000, scaler(scene))
            few = [n <= 8 for n in out.workers[500:]]
            self.assertGreater(sum(few) / len(few), 0.7)

    def test_cpu_bound_stays_at_cores(self):
        """Those that fill the cores get no company: not even for a trial."""
        for cores in (1, 2, 4, 8):
            for seed in range(4):
                scene = Scene(cores=cores, jitter=0.3, **LOADS["cpu, load-bound"])
                self.assertLessEqual(max(run(scene, 400, scaler(scene), seed).workers), cores)

    def test_first_batch_of_each_epoch_late(self):
        """More workers do not help with those: they are not hired again and again."""
        s, hired, before = Autoscaler(4, 16, 4), 0, 4
        for i in range(3000):
            n = s.step(0.2 if i % 50 == 0 else 0.0, 0.01, 0.008, 0.008, 32)
            hired, before = hired + max(0, n - before), n
        self.assertLessEqual(hired, 40)
        self.assertLessEqual(n, 5)


class Fast(unittest.TestCase):
    def test_many_waits_many_workers_at_once(self):
        scene = Scene(cores=2, io_s=0.5, cpu_s=0.002, step_s=0.01)
        self.assertEqual(run(scene, 10, scaler(scene)).workers[2], scene.limit)

    def test_shorter_steps_are_followed_within_a_few_batches(self):
        scene = Scene(io_s=0.1, cpu_s=0.005, step_s=0.1, phases=((300, {"step_s": 0.01}),))
        out = run(scene, 400, scaler(scene))
        self.assertLessEqual(out.workers[299], 3)
        self.assertGreaterEqual(out.workers[350], 10)


class Steady(unittest.TestCase):
    def test_a_pause_retires_nobody(self):
        scene = Scene(io_s=0.1, cpu_s=0.002, step_s=0.01, pause_every=97, pause_s=600)
        with_pauses = run(scene, 1000, scaler(scene))
        without = run(dataclasses.replace(scene, pause_every=0), 1000, scaler(scene))
        self.assertGreaterEqual(min(with_pauses.workers[20:]), 10)
        self.assertLess(sum(with_pauses.waited), 1.1 * sum(without.waited) + 0.1)

    def test_one_long_step_early(self):
        """The first step compiles a model: it says little about the others."""
        s = Autoscaler(4, 16, 4)
        s.step(0.5, 0.0, 0.1, 0.001, 32)
        self.assertEqual(s.step(0.0, 60.0, 0.1, 0.001, 32), 4)
        for _ in range(20):
            n = s.step(0.02, 0.005, 0.1, 0.001, 32)
        self.assertGreaterEqual(n, 14)

    def test_gradient_accumulation(self):
        """Every eighth step is long: what counts is the mean."""
        s = Autoscaler(8, 16, 4)
        for i in range(400):
            n = s.step(0.0, 0.3 if i % 8 == 7 else 0.03, 0.1, 0.1, 32)
        self.assertIn(n, (2, 3, 4))


class Plain(unittest.TestCase):
    def test_same_calls_same_answers(self):
        scene = Scene(cores=4, jitter=0.3, **LOADS["bucket and cpu"])
        self.assertEqual(run(scene, 500, scaler(scene)), run(scene, 500, scaler(scene)))

    def test_bounds(self):
        for limit in (1, 2, 5):
            scene = Scene(cores=4, limit=limit, **LOADS["io, load-bound"])
            out = run(scene, 200, scaler(scene))
            self.assertTrue(all(1 <= n <= limit for n in out.workers))

    def test_a_limit_that_shrinks(self):
        """Memory grows short in the middle of everything."""
        for when in (1, 2, 10, 60, 80, 150):
            s = Autoscaler(2, 16, 2)
            for i in range(400):
                s.limit = 16 if i < when else 5
                n = s.step(0.03 if i % 4 == 0 else 0.0, 0.001, 0.1, 0.001, 32)
                self.assertTrue(1 <= n <= s.limit)

    def test_nothing_known(self):
        s = Autoscaler(2, 4, 2)
        for _ in range(300):
            self.assertTrue(1 <= s.step(0.0, 0.0, 0.0, 0.0, 0) <= 4)
        for _ in range(300):
            self.assertTrue(1 <= s.step(1.0, 0.0, 0.0, 0.0, 1) <= 4)
        for x in (1e-12, 1e12, 0.0):
            for _ in range(100):
                self.assertTrue(1 <= s.step(x, x, x, x, 1) <= 4)
                self.assertTrue(1 <= s.step(0.0, x, 1 / (x + 1), math.pi, 10 ** 9) <= 4)

    def test_bad_arguments(self):
        for bad in ((0, 4, 2), (2, 0, 1), (2, 4, 0), (2, 4, 5)):
            with self.assertRaisesRegex(ValueError, "cores="):
                Autoscaler(*bad)


if __name__ == "__main__":
    unittest.main()
