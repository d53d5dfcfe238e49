# SPDX-License-Identifier: Apache-2.0
"""Making batches, without processes."""
import errno
import pickle
import random
import types
import unittest

import numpy
import torch
from torch.utils.data import ConcatDataset, Subset, default_collate, default_convert

from dlcache.torch.pipeline import worker
from dlcache.torch.pipeline.worker import BatchConfig, BatchTask, Failure, make_batch, make_here


class Squares(torch.utils.data.Dataset):
    def __len__(self):
        return 100

    def __getitem__(self, i):
        if i == 13:
            raise ValueError("thirteen")
        return torch.tensor(i * i), random.random(), float(numpy.random.rand()), torch.rand(())


class NativeOrder(Squares):
    asked = None

    def __getitems__(self, indices):
        self.asked = indices
        return [i * 2 for i in indices]


class Source:
    """As a dlcache handle counts."""

    def __init__(self):
        self.n = 0

    def stats(self):
        return types.SimpleNamespace(hits=self.n, misses=2 * self.n, bypasses=self.n,
                                     without_daemon=self.n, bytes=100 * self.n, stall_s=0.5 * self.n, reconnects=0)

    def key(self, number):
        return f"k/{number}"


class Sourced(Squares):
    def __init__(self):
        self.handle = Source()

    def source(self):
        return self.handle, range(50, 150)

    def __getitem__(self, i):
        self.handle.n += 1
        return super().__getitem__(i)


class TwoArguments(Exception):
    def __init__(self, code, text):
        super().__init__(code, text)
        self.code, self.text = code, text


class OwnText(Exception):
    def __str__(self):
        return "fixed"


def raised(error):
    try:
        raise error
    except Exception as e:
        return Failure(e, "worker 3, batch 17, sample 421")


class Make(unittest.TestCase):
    def test_as_torch_does(self):
        config = BatchConfig(Squares(), default_collate)
        self.assertEqual(make_batch(config, BatchTask(0, [1, 2, 3]))[0].tolist(), [1, 4, 9])
        config = BatchConfig(Squares(), default_convert, auto_collation=False)
        self.assertEqual(make_batch(config, BatchTask(0, 5))[0], 25)
        data = NativeOrder()
        self.assertEqual(make_batch(BatchConfig(data, list), BatchTask(0, [4, 5])), [8, 10])
        self.assertEqual(data.asked, [4, 5])

    def test_the_seed_decides(self):
        config = BatchConfig(Squares(), default_collate)
        a, b, c = (make_batch(config, BatchTask(0, [1, 2], seed)) for seed in (7, 7, 8))
        for k in (1, 2, 3):
            self.assertTrue(torch.equal(a[k], b[k]))
            self.assertFalse(torch.equal(a[k], c[k]))
        make_batch(config, BatchTask(0, [1], (1 << 63) - 1))

    def test_a_job_can_be_pickled(self):
        config = pickle.loads(pickle.dumps(BatchConfig(Squares(), default_collate)))
        self.assertEqual(make_batch(config, BatchTask(0, [3]))[0].tolist(), [9])


class Local(unittest.TestCase):
    def test_random_state_is_put_aside(self):
        config = BatchConfig(Squares(), default_collate)
        states = [torch.get_rng_state(), random.getstate(), numpy.random.get_state()[1].tolist()]
        done = make_here(config, BatchTask(4, [1, 2], 7))
        self.assertEqual((done.number, done.samples, done.error, done.waited_s), (4, 2, None, 0.0))
        self.assertGreater(done.busy_s, 0)
        self.assertTrue(torch.equal(states[0], torch.get_rng_state()))
        self.assertEqual(states[1:], [random.getstate(), numpy.random.get_state()[1].tolist()])

    def test_an_error_keeps_its_traceback_and_says_where(self):
        done = make_here(BatchConfig(Squares(), default_collate), BatchTask(6, [12, 13]))
        self.assertIsInstance(done.error, ValueError)
        self.assertIn("batch 6, sample 13", done.error.__notes__[0])
        self.assertIsNotNone(done.error.__traceback__)
        with self.assertRaises(ValueError):
            raise done.error

    def test_an_error_of_the_collate_function_blames_no_sample(self):
        done = make_here(BatchConfig(Squares(), lambda samples: 1 / 0), BatchTask(6, [12]))
        self.assertEqual(done.error.__notes__, ["dlcache: in batch 6"])

    def test_what_the_source_counted(self):
        data = Sourced()
        for dataset in (data, Subset(data, range(10)), ConcatDataset([Squares(), data])):
            index = 101 if isinstance(dataset, ConcatDataset) else 1
            done = make_here(BatchConfig(dataset, default_collate), BatchTask(0, [index, index]))
            self.assertEqual(done.stats, {"hits": 2, "misses": 4, "bypasses": 2, "without_daemon": 2, "bytes": 200})
            self.assertEqual(done.waited_s, 1.0)

    def test_the_key_of_the_sample_is_named(self):
        done = make_here(BatchConfig(Sourced(), default_collate), BatchTask(0, [13]))
        self.assertIn("sample 13 (k/63)", done.error.__notes__[0])

    def test_a_source_that_cannot_be_opened_is_no_trouble(self):
        data = Squares()
        data.source = lambda: 1 / 0
        self.assertEqual(make_here(BatchConfig(data, default_collate), BatchTask(0, [1])).stats, {})


class Notes(unittest.TestCase):
    def test_any_kind_of_index(self):
        for index, seen in ((5, 5), (numpy.int32(6), 6), (torch.tensor(7), 7), ("a", None),
                            (2**70, None)):
            with self.subTest(index=index):
                worker._cells = torch.zeros(4, dtype=torch.int64).numpy().data
                try:
                    worker._cells[0] = 9
                    worker.note_sample(index)
                    self.assertEqual(worker.sample_of(worker._cells, 9), seen)
                    self.assertIsNone(worker.sample_of(worker._cells, 8))
                finally:
                    worker._cells = [-1] * 4


class Failures(unittest.TestCase):
    def check(self, error, kind):
        back = pickle.loads(pickle.dumps(raised(error))).rebuild()
        self.assertIs(type(back), kind)
        for part in ("worker 3, batch 17, sample 421", "Original traceback", "in raised",
                     type(error).__name__):
            self.assertIn(part, str(back))
        self.assertIn("\n", str(back))
        return back

    def test_the_type_is_kept(self):
        for error in (ValueError("x"), IndexError(), KeyError("k"), TwoArgumentsLike("a")):
            self.check(error, type(error))

    def test_attributes_are_kept(self):
        self.assertEqual(self.check(TwoArguments(5, "five"), TwoArguments).code, 5)
        back = self.check(OSError(errno.ENOENT, "no such", "/x"), FileNotFoundError)
        self.assertEqual((back.errno, back.filename), (errno.ENOENT, "/x"))
        self.check(FileNotFoundError("only text"), FileNotFoundError)

    def test_what_cannot_be_rebuilt_is_a_runtime_error(self):
        class Hidden(Exception):
            pass
        for error in (Hidden("h"), OwnText("o"), StopIteration("end"),
                      UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad")):
            self.check(error, RuntimeError)

    def test_attributes_that_cannot_be_pickled(self):
        error = ValueError("x")
        error.thing = lambda: None
        self.check(error, ValueError)


class TwoArgumentsLike(LookupError):
    pass


if __name__ == "__main__":
    unittest.main()
