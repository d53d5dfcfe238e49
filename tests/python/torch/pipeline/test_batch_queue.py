# SPDX-License-Identifier: Apache-2.0
"""BatchQueue with a pool that does what the test says, in this process."""
import unittest

import torch
from torch.utils.data import BatchSampler

from dlcache.torch.order.epoch_state import EpochState
from dlcache.torch.order.samplers import Shuffle
from dlcache.torch.pipeline.batch_queue import BatchQueue, LocalBatches, Pinner, pinned
from dlcache.torch.pipeline.worker import BatchConfig, BatchResult
from dlcache.torch.pipeline.worker_pool import WorkerDied


class Fake:
    """A pool whose batches are finished last in, first out, when somebody waits; or all at once."""

    def __init__(self, eager=False):
        self.size, self.closed, self.eager = 0, False, eager
        self.tasks, self.most, self.seen, self.forgotten = [], 0, [], []
        self.error = None

    pids = []
    room = 1000

    def resize(self, n):
        self.size = n

    def submit(self, task):
        self.tasks.append(task)
        self.seen.append(list(task.indices))
        self.most = max(self.most, len(self.tasks))

    def _done(self, task):
        return BatchResult(task.number, list(task.indices), None, len(task.indices), 0.1, 0.1, 0.0, {})

    def receive(self):
        if self.error is not None:
            raise self.error
        return self._done(self.tasks.pop())

    def poll(self):
        found = [self._done(t) for t in self.tasks] if self.eager else []
        self.tasks = [] if self.eager else self.tasks
        return found

    def forget(self, below):
        self.forgotten.append([list(t.indices) for t in self.tasks if t.number < below])
        self.tasks = [t for t in self.tasks if t.number >= below]

    def close(self):
        self.closed = True


class Feeding(unittest.TestCase):
    def make(self, n=24, size=2, workers=2, keep=True, relaxed=False, eager=False, **more):
        self.pools = []
        self.sampler = Shuffle(n, shuffle=False)
        self.epochs = EpochState(self.sampler, BatchSampler(self.sampler, size, False), **more)
        self.queue = BatchQueue(workers, 2, None, self.epochs, keep=keep, relaxed=relaxed, pin=None)
        self.eager = eager
        return self.queue

    def new_pool(self):
        self.pools.append(Fake(self.eager))
        return self.pools[-1]

    def begin(self, version=None):
        self.queue.begin(self.epochs.begin(), version, None, self.new_pool)

    def rest(self, n=None):
        found = []
        while n is None or len(found) < n:
            try:
                found.append(self.queue.next().batch)
            except StopIteration:
                break
        return found

    WHOLE = [[i, i + 1] for i in range(0, 24, 2)]

    def test_in_sequence_however_they_are_finished(self):
        for eager in (False, True):
            self.make(eager=eager)
            for _ in range(3):
                self.begin()
                self.assertEqual(self.rest(), self.WHOLE)
            self.assertLessEqual(self.pools[0].most, 4)
            self.assertEqual(len(self.pools), 1)

    def test_relaxed_as_they_are_finished(self):
        self.make(relaxed=True)
        self.begin()
        got = self.rest()
        self.assertEqual(got[0], [6, 7])
        self.assertEqual(sorted(got), self.WHOLE)

    def test_the_next_epoch_is_given_to_workers_before_this_one_ends(self):
        self.make()
        self.begin()
        self.rest(12)
        self.assertEqual(self.pools[0].seen, self.WHOLE + self.WHOLE[:4])
        self.begin()
        self.assertEqual(self.rest(), self.WHOLE)
        self.assertEqual(self.pools[0].seen, self.WHOLE * 2 + self.WHOLE[:4])

    def test_not_without_kept_workers_nor_after_the_last_epoch(self):
        for how in ({"keep": False}, {"epochs": 1}):
            self.make(**how)
            self.begin()
            self.rest()
            self.assertEqual(self.pools[0].seen, self.WHOLE)

    def test_what_was_foreseen_wrongly_is_forgotten(self):
        self.make(eager=True)
        self.begin()
        self.rest(11)
        self.epochs._sampler.drop_last, self.epochs._sampler.source = True, 10
        self.begin()
        self.assertEqual(self.rest(), self.WHOLE[:5])

    def test_given_up_in_mid_epoch(self):
        self.make()
        self.begin()
        self.rest(3)
        self.begin()
        self.assertIn([8, 9], self.pools[0].forgotten[-1])
        self.assertEqual([list(t.indices) for t in self.pools[0].tasks], self.WHOLE[:4])
        self.assertEqual(self.rest(10), self.WHOLE[:10])
        self.begin()  # with batches of the next one given already: those are taken over
        self.assertEqual(self.rest(), self.WHOLE)
        self.assertEqual(len(self.pools), 1)

    def test_another_version_of_the_dataset_needs_new_workers(self):
        self.make()
        for version, pools in ((1, 1), (1, 1), (2, 2)):
            self.begin(version)
            self.assertEqual(self.rest(), self.WHOLE)
            self.assertEqual(len(self.pools), pools)
        self.assertTrue(self.pools[0].closed)

    def test_whatever_stops_it_ends_the_workers(self):
        for error in (KeyboardInterrupt(), WorkerDied([1], 1, -9, 5), RuntimeError("late")):
            self.make()
            self.begin()
            self.rest(2)
            self.pools[0].error = error
            with self.assertRaises(type(error)):
                self.rest()
            self.assertTrue(self.pools[0].closed)
            with self.assertRaisesRegex(RuntimeError, "broken off"):
                self.queue.next()
            self.begin()
            self.assertEqual(self.rest(), self.WHOLE)

    def test_no_more_workers_than_batches(self):
        self.make(n=4, workers=8, keep=False)
        self.begin()
        self.assertEqual(self.pools[0].size, 2)
        self.queue.resize(20)
        self.assertEqual((self.pools[0].size, self.queue.size), (2, 20))

    def test_an_empty_epoch(self):
        self.make(n=0)
        self.begin()
        self.assertEqual(self.rest(), [])

    def test_resized(self):
        self.make()
        self.begin()
        self.queue.resize(5)
        self.assertEqual((self.pools[0].size, len(self.pools[0].seen)), (5, 10))
        self.queue.resize(1)
        self.assertEqual(self.rest(), self.WHOLE)


class WithoutWorkers(unittest.TestCase):
    def test_batches_are_made_when_asked_for(self):
        read = []

        class Data:
            def __getitem__(self, i):
                read.append(i)
                return i

        sampler = Shuffle(5, shuffle=False)
        epochs = EpochState(sampler, BatchSampler(sampler, 2, False))
        local = LocalBatches(None, epochs, None)
        local.begin(epochs.begin(), None, BatchConfig(Data(), list), None)
        self.assertEqual(read, [])
        self.assertEqual(local.next().batch, [0, 1])
        self.assertEqual(read, [0, 1])
        self.assertEqual([local.next().batch, local.next().batch], [[2, 3], [4]])
        with self.assertRaises(StopIteration):
            local.next()


class Pinning(unittest.TestCase):
    def test_a_thread_gives_back_what_it_got(self):
        done = BatchResult(1, torch.zeros(2), None, 2, 0, 0, 0, {})
        pinner = Pinner(None)
        pinner.put("key", done)
        key, got = pinner.get(wait=True)
        self.assertEqual(key, "key")
        if torch.cuda.is_available():
            self.assertTrue(got.batch.is_pinned())
        else:
            self.assertIsInstance(got.error, Exception)
        self.assertIsNone(pinner.get(wait=False))
        pinner.close()
        self.assertFalse(pinner._thread.is_alive())

    def test_what_holds_no_tensor_stays(self):
        done = BatchResult(1, {"a": "text"}, None, 1, 0, 0, 0, {})
        self.assertEqual(pinned(done, None).batch, {"a": "text"})


if __name__ == "__main__":
    unittest.main()
