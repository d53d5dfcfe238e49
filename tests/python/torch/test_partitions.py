# SPDX-License-Identifier: Apache-2.0
"""Partitions over handles that are made up: forms of rows, parsing, dealing out, memory. With a
real daemon and workers: tests/scenario/python/partitions."""
import gc
import io
import pickle
import unittest
import weakref
from unittest import mock

import numpy
import torch

import dlcache
from dlcache.torch.partitions import Partitions


class Handle:
    """As dlcache.Dataset, of {key: bytes}; counts what is followed and what is held."""

    def __init__(self, files, splits=None):
        self.url, self.files, self.splits = "s3://made/up/", list(files.items()), splits or {}
        self.buffers, self.plan, self.snapshot = [], None, "0123456789abcdef"

    def __len__(self):
        return len(self.files)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def key(self, n):
        return self.files[n][0]

    def __getitem__(self, n):
        self.buffers.append(bytearray(self.files[n][1]))
        return memoryview(self.buffers[-1])

    def follow(self, numbers, epochs):
        self.plan = list(numbers)

    def next(self):
        n = self.plan.pop(0)
        return n, self[n]

    def held(self):
        count = 0
        for buffer in self.buffers:
            try:
                buffer.append(0)
            except BufferError:
                count += 1
        return count


def npy(array):
    out = io.BytesIO()
    numpy.save(out, array)
    return out.getvalue()


def cut(n, per=10, name="x.npy"):
    """A table of numbers 0, 1, ... in n partitions."""
    return {"%s/rows %d-%d" % (name, first, first + per - 1): npy(numpy.arange(first, first + per))
            for first in range(0, n * per, per)}


class Case(unittest.TestCase):
    def rows_of(self, files, **how):
        self.handle = files if isinstance(files, Handle) else Handle(files)
        opening = mock.patch.object(dlcache, "open", return_value=self.handle)
        opening.start()
        self.addCleanup(opening.stop)
        return Partitions("s3://made/up/", **how)


class Forms(Case):
    def csv(self, text, **how):
        return self.rows_of({"a.csv": text.encode()}, **how)

    def test_numbers_are_tensors(self):
        for text in ("a,b\n1,2.5\n3,4\n", "a;b\r\n1;2.5\r\n\r\n3;4\r\n", '1,2.5\n"3",4\n',
                     "\ufeffa,b\n1,2.5\n3,4"):
            rows = list(self.csv(text))
            self.assertEqual([(r.dtype, r.tolist()) for r in rows],
                             [(torch.float32, [1, 2.5]), (torch.float32, [3, 4])], text)
        self.assertEqual(self.handle.held(), 0)

    def test_empty_fields_are_nan(self):
        rows = self.csv("a,b\n1,\n,4\n").partition(0)
        self.assertEqual(rows.isnan().tolist(), [[False, True], [True, False]])

    def test_texts_make_dicts(self):
        rows = list(self.csv("id,name,x\n1,\"a, b\",0.5\n2,c,1\n"))
        self.assertEqual(rows, [{"id": 1, "name": "a, b", "x": 0.5},
                                {"id": 2, "name": "c", "x": 1.0}])
        self.assertIsInstance(rows[0]["id"], int)

    def test_rows_as_wanted(self):
        text = "id,x\n1,0.5\n2,1\n"
        self.assertEqual(list(self.csv(text, rows="dict")), [{"id": 1, "x": 0.5},
                                                             {"id": 2, "x": 1.0}])
        self.assertEqual(list(self.csv(text, rows="tuple")), [(1, 0.5), (2, 1.0)])
        self.assertEqual(list(self.csv(text, types={"id": str})),
                         [{"id": "1", "x": 0.5}, {"id": "2", "x": 1.0}])
        self.assertEqual([r.tolist() for r in self.csv("id,n\n1,2\n", dtype=torch.int64)], [[1, 2]])
        with self.assertRaisesRegex(ValueError,
                                    "a.csv: rows cannot be tensors: there are texts in n"):
            list(self.csv("id,n\n1,x\n", rows="tensor"))

    def test_batches(self):
        rows = self.csv("id,name\n1,a\n2,b\n3,c\n", batch=2)
        batches = list(rows)
        self.assertEqual([b["id"].tolist() for b in batches], [[1, 2], [3]])
        self.assertEqual([b["name"] for b in batches], [["a", "b"], ["c"]])
        rows = self.rows_of({"a.npy": npy(numpy.arange(10).reshape(5, 2))}, batch=3)
        self.assertEqual([tuple(b.shape) for b in rows], [(3, 2), (2, 2)])

    def test_parquet_or_what_is_missing(self):
        try:
            import pyarrow
            import pyarrow.parquet
        except ImportError:
            with self.assertRaisesRegex(ImportError, "pip install pyarrow"):
                list(self.rows_of({"a.parquet": b"PAR1"}))
            return
        out = io.BytesIO()
        pyarrow.parquet.write_table(pyarrow.table({"a": [1, 2], "t": ["x", "y"]}), out)
        self.assertEqual(list(self.rows_of({"a.parquet": out.getvalue()})),
                         [{"a": 1, "t": "x"}, {"a": 2, "t": "y"}])

    def test_a_parser_of_the_user(self):
        rows = self.rows_of({"a.bin": b"abc"}, parse=lambda data, key: [key + chr(c) for c in data])
        self.assertEqual(list(rows), ["a.bina", "a.binb", "a.binc"])
        rows = self.rows_of({"a.bin": b"abc"}, transform=str.upper,
                            parse=lambda data, key: list(bytes(data).decode()))
        self.assertEqual(list(rows), ["A", "B", "C"])

    def test_rows_keep_nothing_else(self):
        for how in (dict(), dict(batch=3), dict(shuffle=True), dict(shuffle=True, batch=3)):
            row = next(iter(self.rows_of(cut(1, 1000), **how)))
            self.assertLessEqual(row.storage().nbytes(), 24)

    def test_what_cannot_be(self):
        for text, message in (("a,b\n1,2\n3\n", "a.csv: row 1 has 1 fields"),
                              ("a,b\n" + "1,2\n" * 1000 + "1,x\n",
                               "a.csv: column b has 'x', which is no float")):
            with self.assertRaisesRegex(ValueError, message):
                list(self.csv(text))
        with self.assertRaisesRegex(ValueError, "column a has '0.5', which is no int; .*types="):
            list(self.csv("a,t\n" + "1,x\n" * 1000 + "0.5,x\n"))
        with self.assertRaisesRegex(ValueError, "types names the column q; there are a, b"):
            list(self.csv("a,b\n1,2\n", types={"q": int}))
        with self.assertRaisesRegex(ValueError,
                                    "b.csv has the columns a, c, but the first partition has a, b"):
            list(self.rows_of({"a.csv": b"a,b\n1,2\n", "b.csv": b"a,c\n1,2\n"}))
        with self.assertRaisesRegex(ValueError, "a.jpg is not a csv"):
            list(self.rows_of({"a.jpg": b"x"}))
        for how in (dict(parse="xls"), dict(rows="list"), dict(batch=0), dict(rank=1),
                    dict(rank=2, world=2)):
            with self.assertRaises(ValueError):
                self.rows_of({}, **how)

    def test_types_are_those_of_the_first_partition(self):
        files = {"a.csv": b"a,b\n1,x\n", "b.csv": b"a,b\n2,7\n"}
        self.assertEqual(list(self.rows_of(files, rank=1, world=2)), [{"a": 2, "b": "7"}])


class Dealing(Case):
    def test_in_order(self):
        rows = self.rows_of(cut(4))
        self.assertEqual([int(r) for r in rows], list(range(40)))
        self.assertEqual(len(rows), 40)
        self.assertEqual(rows.partition(-1).tolist(), list(range(30, 40)))
        self.assertEqual((len(rows.keys), rows.keys[1]), (4, "x.npy/rows 10-19"))
        with self.assertRaises(IndexError):
            rows.partition(4)

    def test_shuffled(self):
        rows = self.rows_of(cut(8), shuffle=True, seed=3)
        first = [int(r) for r in rows]
        self.assertEqual([int(r) for r in rows], first)
        rows.set_epoch(1)
        second = [int(r) for r in rows]
        self.assertEqual((sorted(first), sorted(second)), (list(range(80)), list(range(80))))
        self.assertNotEqual(first, second)
        self.assertEqual({n // 10 for n in first[:10]}, {first[0] // 10}, "one partition at a time")
        self.assertNotEqual(first[:10], sorted(first[:10]))

    def test_ranks_and_workers(self):
        for shuffle in (False, True):
            for workers in (1, 3):
                got = []
                for rank in range(2):
                    rows = self.rows_of(cut(7), shuffle=shuffle, rank=rank, world=2)
                    mine = []
                    for worker in range(workers):
                        info = mock.Mock(id=worker, num_workers=workers)
                        with mock.patch.object(torch.utils.data, "get_worker_info",
                                               return_value=info):
                            mine += [int(r) for r in rows]
                    self.assertEqual(len(mine), len(rows))
                    got += mine
                self.assertEqual(sorted(got), list(range(70)), (shuffle, workers))

    def test_lengths(self):
        self.assertEqual(len(self.rows_of(cut(4), batch=4)), 12)
        with self.assertRaisesRegex(TypeError, "a.npy is not known"):
            len(self.rows_of({"a.npy": npy(numpy.arange(3))}))
        handle = Handle(cut(4), splits={"train": range(0, 3), "test": range(3, 4)})
        self.assertEqual([int(r) for r in self.rows_of(handle, split="test")], list(range(30, 40)))

    def test_one_partition_at_a_time(self):
        alive, most = weakref.WeakSet(), []

        class Rows(list):
            __hash__ = object.__hash__

        def parse(data, key):
            gc.collect()
            rows = Rows(bytes(data[-80:]))
            alive.add(rows)
            most.append(len(alive))
            return rows
        rows = self.rows_of(cut(10), parse=parse)
        for _ in rows:
            self.assertEqual(self.handle.held(), 0,
                             "its bytes are no longer held while rows are given")
            self.handle.buffers.clear()
        self.assertEqual(most, [1] * 10)

    def test_pickled(self):
        rows = self.rows_of(cut(2), shuffle=True, refresh=True)
        rows.set_epoch(5)
        with mock.patch.object(torch.distributed, "is_initialized", return_value=True), \
                mock.patch.object(torch.distributed, "get_rank", return_value=1), \
                mock.patch.object(torch.distributed, "get_world_size", return_value=2):
            data = pickle.dumps(rows)
        again = pickle.loads(data)
        self.assertEqual((again.ranks(), again.epoch), ((1, 2), 5))
        self.assertEqual(len([r for r in again]), 10)
        self.assertEqual(dlcache.open.call_args, mock.call("s3://made/up/", refresh=False, snapshot=self.handle.snapshot))


if __name__ == "__main__":
    unittest.main()
