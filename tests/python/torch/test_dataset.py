# SPDX-License-Identifier: Apache-2.0
"""Dataset over a handle that is made up: items, numbering, errors, attributes. With a real daemon:
tests/scenario/python."""
import collections
import os
import pickle
import tempfile
import unittest
from unittest import mock

import numpy
import torch
from torch.utils.data import ConcatDataset, Subset

import dlcache
from dlcache.torch import dataset as module
from dlcache.torch.sample_table import SampleTable
from dlcache.torch.dataset import Dataset
from dlcache.torch.folders import DatasetFolder
from dlcache.torch.pipeline import worker
from dlcache.torch.sources import source_of, url_of


class Handle:
    """As dlcache.Dataset, of a list of (key, bytes)."""

    def __init__(self, samples, labels=None, classes=(), targets=None, splits=None, columns=None):
        self.url = self.location = "s3://made/up/"
        self.snapshot = "0123456789abcdef"
        self.samples, self.labels, self.classes = samples, labels, list(classes)
        self.targets, self.splits, self.table = targets, splits or {}, columns or {}
        self.class_to_idx = {name: k for k, name in enumerate(classes)}
        self.columns = list(self.table)
        self.failing = {}  # number: exception
        self.calls = collections.Counter()
        self.buffers = []

    def __len__(self):
        return len(self.samples)

    def key(self, n):
        return self.samples[n][0]

    def find(self, key):
        for n, (k, _) in enumerate(self.samples):
            if k == key:
                return n
        raise dlcache.NotFoundError(-4, "no such key: " + key)

    def column(self, name, n):
        return self.table[name][n]

    def target(self, n):
        return None if self.targets is None else len(self.samples) + n

    def target_key(self, n):
        return self.targets[n][0]

    def read_target(self, n):
        self.calls["target"] += 1
        return self._view(self.targets[n][1])

    def _view(self, data):
        self.buffers.append(bytearray(data))
        return memoryview(self.buffers[-1])

    def _get(self, n):
        if n in self.failing:
            raise self.failing[n]
        return self._view(self.samples[n][1])

    def __getitem__(self, n):
        self.calls["one"] += 1
        return self._get(n)

    def read_many(self, numbers):
        self.calls["many"] += 1
        return [self._get(n) for n in numbers]

    def read_pairs(self, numbers):
        self.calls["pairs"] += 1
        return [self._get(n) for n in numbers], [self._view(self.targets[n][1]) for n in numbers]

    def held(self):
        """How many views were not released."""
        count = 0
        for buffer in self.buffers:
            try:
                buffer.append(0)
            except BufferError:
                count += 1
        return count


def texts(n, **how):
    return Handle([("%d.txt" % i, b"text %d" % i) for i in range(n)], **how)


def opened(handle, cls=Dataset, **how):
    with mock.patch.object(dlcache, "open", return_value=handle):
        return cls("s3://made/up/", **how)


class Items(unittest.TestCase):
    def test_alone_or_with_a_label(self):
        self.assertEqual(opened(texts(3))[1], "text 1")
        ds = opened(texts(3, labels=memoryview(numpy.array([1, 0, -1])), classes=["a", "b"]))
        self.assertEqual(list(ds), [("text 0", 1), ("text 1", 0), ("text 2", -1)])

    def test_indices_of_all_kinds(self):
        ds = opened(texts(5))
        for index in (3, -2, numpy.int64(3), numpy.uint8(3), torch.tensor(3)):
            self.assertEqual(ds[index], "text 3")
        for index in (5, -6, 2**70):
            with self.assertRaises(IndexError):
                ds[index]
            with self.assertRaises(IndexError):
                ds.__getitems__([0, index])
        for index in (1.0, "1", None, slice(2)):
            with self.assertRaises(TypeError):
                ds[index]

    def test_a_batch_is_one_call_and_holds_nothing(self):
        handle = texts(10)
        ds = opened(handle)
        self.assertEqual(ds.__getitems__([3, numpy.int64(1), torch.tensor(-1)]),
                         ["text 3", "text 1", "text 9"])
        self.assertEqual(handle.calls, {"many": 1})
        self.assertEqual(ds.__getitems__([]), [])
        self.assertEqual(handle.held(), 0)

    def test_views_go_while_the_batch_is_made(self):
        handle = texts(3)
        ds = opened(handle, transform=lambda sample: (sample, handle.held()))
        self.assertEqual([left for _, left in ds.__getitems__([0, 1, 2])], [2, 1, 0])

    def test_a_loader_that_keeps_the_view(self):
        handle = texts(1)
        ds = opened(handle, decode=lambda view: view[2:])
        kept = ds[0]
        self.assertEqual((bytes(kept), handle.held()), (b"xt 0", 1))
        kept.release()
        self.assertEqual(handle.held(), 0)

    def test_pairs(self):
        handle = texts(3, targets=[("t/%d.json" % i, b'{"n": %d}' % i) for i in range(3)])
        ds = opened(handle)
        self.assertEqual(ds.__getitems__([2, 0]), [("text 2", {"n": 2}), ("text 0", {"n": 0})])
        self.assertEqual(handle.calls, {"pairs": 1})
        self.assertEqual(ds[1], ("text 1", {"n": 1}))
        self.assertEqual(handle.held(), 0)
        self.assertEqual(opened(handle, target_decode="text")[1][1], '{"n": 1}')
        self.assertEqual(ds.samples[1], ("1.txt", None))
        with self.assertRaisesRegex(AttributeError, "read the items"):
            ds.targets

    def test_loader_gets_a_file(self):
        ds = opened(texts(2), loader=lambda file: (file.name, file.read(4)))
        self.assertEqual(ds[1], ("1.txt", b"text"))
        lazy = opened(texts(2), loader=lambda file: file, transform=lambda file: file.read())
        self.assertEqual(lazy[1], b"text 1", "PIL.Image.open reads late")

    def test_transforms(self):
        labels = memoryview(numpy.array([5, 6]))
        ds = opened(texts(2, labels=labels), transform=str.upper, target_transform=lambda t: -t)
        self.assertEqual(ds[1], ("TEXT 1", -6))
        ds = opened(texts(2, labels=labels), transforms=lambda s, t: (s + str(t), t * 2))
        self.assertEqual(ds[1], ("text 16", 12))
        ds = opened(texts(2), transforms=lambda s, t: (s + "!", t), )
        self.assertEqual(ds[1], "text 1!")
        with self.assertRaisesRegex(ValueError, "give the one or the others"):
            opened(texts(2), transforms=max, transform=max)


class Choosing(unittest.TestCase):
    SPLITS = {"train": range(0, 6), "validation": range(6, 10)}

    def test_splits(self):
        handle = texts(10, splits=self.SPLITS, labels=memoryview(numpy.arange(10)))
        for name in ("validation", "val", "valid"):
            ds = opened(handle, split=name)
            self.assertEqual((len(ds), ds[0], ds[-1], ds.key(1)),
                             (4, ("text 6", 6), ("text 9", 9), "7.txt"))
            self.assertEqual(ds.source(), (handle, range(6, 10)))
            self.assertEqual(ds.targets, [6, 7, 8, 9])
        self.assertEqual(opened(handle).source(), (handle, None))
        with self.assertRaisesRegex(ValueError, "'dev' .*there are train, validation"):
            opened(handle, split="dev")
        with self.assertRaisesRegex(ValueError, "it has none"):
            opened(texts(1), split="train")
        with self.assertRaisesRegex(TypeError, "transform="):
            opened(handle, split=str.upper)

    def test_by_key(self):
        handle = Handle([("%d.%s" % (i, "JPG" if i % 2 else "txt"), b"") for i in range(6)])
        for how in (dict(extensions=(".jpg", ".png")), dict(extensions=".jpg"),
                    dict(is_valid_file=lambda key: key.endswith("JPG"))):
            ds = opened(handle, **how)
            self.assertEqual([ds.key(i) for i in range(3)], ["1.JPG", "3.JPG", "5.JPG"])
            self.assertEqual(list(ds.source()[1]), [1, 3, 5])
        with self.assertRaisesRegex(FileNotFoundError, "none of the 6 samples"):
            opened(handle, extensions=".gif")
        with self.assertRaises(ValueError):
            opened(handle, extensions=".jpg", is_valid_file=bool)

    def test_through_subsets(self):
        handle = texts(10, splits=self.SPLITS)
        ds = opened(handle, split="validation")
        inner = Subset(ds, [3, torch.tensor(1), -4])
        self.assertEqual(list(source_of(inner)[1]), [9, 7, 6])
        self.assertEqual(list(source_of(Subset(inner, numpy.array([2, 0])))[1]), [6, 9])
        self.assertEqual(list(source_of(Subset(opened(handle), range(3)))[1]), [0, 1, 2])
        self.assertIsNone(source_of(Subset([1, 2], [0])))
        self.assertIsNone(source_of([1, 2]))


class Hooks(unittest.TestCase):
    COLUMNS = {"caption": ["a", "b", "c", "d"], "source": ["web", "lab", "web", "web"]}

    class Captions(Dataset):
        def process(self, table):
            self.seen = dict(columns=list(table), n=len(table["key"]), key=table["key"][-1],
                             some=table["caption"][1:3])
            return [(i, table["caption"][i]) for i, s in enumerate(table["source"]) if s == "web"]

        def load_sample(self, data, key):
            return key, len(data)

        def load_target(self, target):
            return target * 2

    def test_manifest(self):
        handle = texts(4, columns=self.COLUMNS)
        ds = opened(handle, self.Captions)
        self.assertEqual(ds.seen, dict(columns=["key", "caption", "source"], n=4, key="3.txt",
                                       some=["b", "c"]))
        self.assertEqual(list(ds), [(("0.txt", 6), "aa"), (("2.txt", 6), "cc"),
                                    (("3.txt", 6), "dd")])
        self.assertEqual(ds.__getitems__([1]), [(("2.txt", 6), "cc")])
        self.assertEqual((ds.targets, ds.samples[0]), (["a", "c", "d"], ("0.txt", "a")))
        self.assertEqual(list(ds.source()[1]), [0, 2, 3])

    def test_a_split_has_a_table_of_its_own(self):
        class Last(Dataset):
            def process(self, table):
                return [(-1, table["caption"][-1]), ("0.txt", "by key")]
        ds = opened(texts(4, columns=self.COLUMNS, splits={"train": range(0, 2)}), Last,
                    split="train")
        self.assertEqual(list(ds), [("text 1", "b"), ("text 0", "by key")])

    def test_what_cannot_be(self):
        for entry in ((9, "x"), ("no.txt", 1), 7, ("a", "b", "c")):
            class Bad(Dataset):
                def process(self, table):
                    return [(0, "good"), entry]
            with self.assertRaisesRegex(ValueError, "at place 1"):
                opened(texts(2), Bad)
        with self.assertRaisesRegex(KeyError, "there are key, caption, source"):
            SampleTable(texts(4, columns=self.COLUMNS), range(4))["speaker"]

    def test_attributes_before_it_is_opened(self):
        class Chosen(Dataset):
            def __init__(self, *args, **how):
                self.wanted = 1
                super().__init__(*args, **how)

            def process(self, table):
                return [(self.wanted, "this")]
        self.assertEqual(list(opened(texts(3), Chosen)), [("text 1", "this")])

    def test_none_leaves_all_as_it_is(self):
        class Same(Dataset):
            def process(self, table):
                return None
        self.assertEqual(list(opened(texts(2), Same)), ["text 0", "text 1"])


class Picky(Exception):
    def __init__(self, one, two):
        super().__init__(one, two)


class Errors(unittest.TestCase):
    def bad(self, on_error, n=10, which=(3, 4), **how):
        def transform(sample):
            if int(sample.split()[1]) in which:
                raise KeyError("cannot")
            return sample
        return opened(texts(n), transform=transform, on_error=on_error, **how)

    def test_raise_says_where(self):
        ds = self.bad("raise")
        for get in (lambda: ds[3], lambda: ds.__getitems__([1, 3])):
            where = r"sample 3 \(3.txt\): transform failed: KeyError: 'cannot'"
            with self.assertRaisesRegex(KeyError, where) as got:
                get()
            self.assertIsInstance(got.exception.__cause__, KeyError)
        with self.assertRaises(KeyError) as got:
            ds.__getitems__(range(10))
        self.assertEqual(ds.source()[0].held(), 0, "while the error lives")
        ds = opened(Handle([("a.json", b"{")]))
        with self.assertRaisesRegex(ValueError, r"sample 0 \(a.json\): decode failed"):
            ds[0]
        ds = opened(texts(1, labels=memoryview(numpy.array([1]))), target_transform=lambda t: t.no)
        with self.assertRaisesRegex(AttributeError, r"sample 0 \(0.txt\): target_transform failed"):
            ds[0]

    def test_types_that_cannot_be_made_again(self):
        for error, kind in ((Picky(1, 2), RuntimeError), (StopIteration("x"), RuntimeError),
                            (UnicodeDecodeError("utf-8", b"", 0, 1, "x"), RuntimeError),
                            (ZeroDivisionError("x"), ZeroDivisionError),
                            (IndexError("x"), IndexError)):
            def transform(sample):
                raise error
            ds = opened(texts(2), transform=transform)
            with self.assertRaisesRegex(kind, r"sample 1 \(1.txt\): transform failed"):
                ds[1]
            with self.assertRaises(kind):  # also an IndexError must not end the loop in silence
                list(ds)

    def test_of_the_bucket(self):
        handle = texts(3)
        handle.failing[1] = dlcache.ChangedError(-6, "1.txt changed")
        for get in (lambda ds: ds[1], lambda ds: ds.__getitems__([0, 1])):
            with self.assertRaisesRegex(dlcache.ChangedError,
                                        r"sample 1 \(1.txt\): read failed.*changed") as got:
                get(opened(handle))
            self.assertEqual(got.exception.code, -6)
        ds = opened(handle, on_error="skip")
        self.assertEqual(ds.__getitems__([0, 1, 2]), ["text 0", "text 2"])
        for error in (dlcache.BucketError(-8, "503"), dlcache.DeniedError(-5, "403"),
                      dlcache.TimedOutError(-9, "late")):
            handle.failing[1] = error
            for on_error in module.ON_ERROR:
                ds = opened(handle, on_error=on_error)
                for get in (lambda: ds[1], lambda: ds.__getitems__([0, 1])):
                    with self.assertRaisesRegex(type(error), error.text):
                        get()
                self.assertEqual(ds.errors, {})
        self.assertEqual(handle.held(), 0)

    def test_skip(self):
        ds = self.bad("skip")
        self.assertEqual(ds.__getitems__(range(2, 6)), ["text 2", "text 5"])
        self.assertEqual(ds.__getitems__([3, 4]), [])
        self.assertEqual(ds[3], "text 5", "one alone is replaced")
        self.assertEqual(ds.errors, {"transform": 5})
        self.assertEqual(ds.bad[0], (3, "3.txt", "transform failed: KeyError: 'cannot'"))
        told = ds.take_errors()
        self.assertEqual((told["skipped"], told["replaced"], len(told["bad"])), (4, 1, 5))
        self.assertIsNone(ds.take_errors())
        self.assertEqual(ds.errors, {"transform": 5}, "still known")

    def test_replace(self):
        ds = self.bad("replace")
        self.assertEqual(ds.__getitems__([2, 3, 4]), ["text 2", "text 5", "text 5"])
        self.assertEqual(ds.take_errors()["replaced"], 2)
        self.assertEqual(self.bad("replace", which=(8, 9))[8], "text 0", "round the end")
        with self.assertRaisesRegex(KeyError, "sample 2 .*the next 9 samples are bad too"):
            self.bad("replace", which=range(10))[2]

    def test_nothing_but_bad_ones(self):
        ds = self.bad("skip", n=3000, which=range(3000))
        self.assertEqual(ds.__getitems__(range(999)), [])
        with self.assertRaisesRegex(KeyError, "sample 999 .*999 before it"):
            ds.__getitems__([999])
        self.assertEqual(len(ds.bad), 1000)
        ds = self.bad("skip", n=3000, which=range(0, 3000, 2))
        self.assertEqual(len(ds.__getitems__(range(3000))), 1500)

    def test_a_missing_library_is_no_bad_sample(self):
        def transform(sample):
            raise ImportError("no such module")
        for on_error in module.ON_ERROR:
            with self.assertRaisesRegex(ImportError, "sample 0 .*no such module"):
                opened(texts(2), transform=transform, on_error=on_error).__getitems__([0])

    def test_counts_travel(self):
        ds = ConcatDataset([Subset(self.bad("skip"), range(2, 7)),
                            self.bad("replace", n=3, which=(0,))])
        job = worker.BatchConfig(ds.datasets[0], list)
        done = worker.make_here(job, worker.BatchTask(0, [0, 1, 2], None))
        self.assertEqual((done.batch, done.samples), (["text 2"], 1))
        told = pickle.loads(pickle.dumps(done.stats["errors"]))
        self.assertEqual((told["skipped"], told["replaced"], [b[0] for b in told["bad"]]),
                         (2, 0, [3, 4]))
        third = self.bad("skip")
        third.add_errors(told)
        self.assertEqual((third.errors, len(third.bad)), ({"transform": 2}, 2))
        self.assertIsNone(third.take_errors())
        done = worker.make_here(job, worker.BatchTask(1, [1, 2], None))
        self.assertEqual((done.batch, done.samples, done.error), (None, 0, None),
                         "nothing is left of it")
        done = worker.make_here(worker.BatchConfig(ds, list), worker.BatchTask(2, [1, 5, 4], None))
        self.assertEqual((done.batch, done.samples), (["text 5", "text 1", "text 6"], 3),
                         "one by one: replaced")
        self.assertEqual(done.stats["errors"]["replaced"], 2)

    def test_a_forked_child_counts_its_own(self):
        ds = self.bad("skip")
        ds.__getitems__([3])
        with mock.patch.object(os, "getpid", return_value=1):
            self.assertIsNone(ds.take_errors())
            self.assertEqual((ds.errors, ds.bad), ({}, []))


class Manners(unittest.TestCase):
    def test_attributes_of_image_folder(self):
        ds = opened(texts(3, labels=memoryview(numpy.array([1, 0, 1])), classes=["cat", "dog"]))
        self.assertEqual((ds.classes, ds.class_to_idx), (["cat", "dog"], {"cat": 0, "dog": 1}))
        self.assertEqual(ds.samples, [("0.txt", 1), ("1.txt", 0), ("2.txt", 1)])
        self.assertEqual(ds.imgs[-1], ("2.txt", 1))
        self.assertEqual(list(ds.targets), [1, 0, 1])
        self.assertEqual(torch.tensor(ds.targets).tolist(), [1, 0, 1])
        self.assertEqual(numpy.asarray(ds.targets).tolist(), [1, 0, 1])
        self.assertEqual(collections.Counter(ds.targets)[1], 2)
        self.assertIn("(3)", repr(ds.targets))

    def test_repr_as_torchvision(self):
        ds = opened(texts(3), transform=mock.Mock(__repr__=lambda self: "Crop(\n3)"))
        self.assertEqual(repr(ds), "Dataset Dataset\n    Number of datapoints: 3\n"
                                   "    Root location: s3://made/up/\n"
                                   "    StandardTransform\nTransform: Crop(\n           3)")
        self.assertNotIn("Transform", repr(opened(texts(3))))

    def test_version(self):
        ds = opened(texts(3))
        before = ds.version
        ds[0], ds.__getitems__([1]), len(ds), repr(ds), ds.source()
        self.assertEqual(ds.version, before)
        ds.transform = str.upper
        self.assertNotEqual(ds.version, before)
        self.assertEqual(ds[0], "TEXT 0")
        ds.transforms = lambda s, t: (s[:2], t)
        self.assertEqual((ds[0], ds.transform), ("te", None))
        ds.transform = str.upper
        self.assertEqual(ds[0], "TEXT 0")
        before = ds.version
        ds.mine = 3
        self.assertNotEqual(ds.version, before)

    def test_settings_are_checked(self):
        ds = opened(texts(1))
        for name, value in (("on_error", "ignore"), ("decode", "jpeg"), ("target_decode", "jpeg")):
            with self.assertRaisesRegex(ValueError, repr(value)):
                setattr(ds, name, value)
            with self.assertRaisesRegex(ValueError, repr(value)):
                opened(texts(1), **{name: value})

    def test_pickled_it_opens_itself_when_read(self):
        ds = opened(texts(5, splits={"train": range(1, 5)}), split="train", refresh=True,
                    transform=str.upper)
        again = pickle.loads(pickle.dumps(ds))
        self.assertEqual((len(again), again.version), (4, ds.version))
        with mock.patch.object(dlcache, "open", return_value=texts(5)) as opening:
            self.assertEqual(again[0], "TEXT 1")
            self.assertEqual(again[1], "TEXT 2")
        opening.assert_called_once_with("s3://made/up/", refresh=False, snapshot=ds.snapshot)

    def test_another_snapshot_is_never_forgiven(self):
        for how in ("raise", "skip", "replace"):
            ds = pickle.loads(pickle.dumps(opened(texts(5), on_error=how)))
            with mock.patch.object(dlcache, "open", side_effect=dlcache.ChangedError(-6, "other")):
                for read in (lambda: ds[0], lambda: ds.__getitems__([0, 1])):
                    self.assertRaises(dlcache.ChangedError, read)
            self.assertEqual(ds.errors, {})

    def test_places(self):
        self.assertEqual(url_of("s3://a/b"), "s3://a/b")
        with tempfile.TemporaryDirectory() as d:
            self.assertEqual(url_of(d), "file://%s/" % d)
            open(d + "/x.tar", "w").close()
            self.assertEqual(url_of(d + "/x.tar"), "file://%s/x.tar" % d)
            with mock.patch.dict(os.environ, HOME=d):
                self.assertEqual(url_of("~"), "file://%s/" % d)
            with self.assertRaisesRegex(FileNotFoundError, "does not exist"):
                url_of(d + "/no")
        with self.assertRaises(TypeError):
            url_of(3)
        with mock.patch.object(dlcache, "open", return_value=Handle([("up/a/0", b"")])) as opening:
            DatasetFolder("http://h/x/?a=b", len)
            DatasetFolder("s3://b/x/", len)
            DatasetFolder("s3://b/x/?layout=flat", len)
        self.assertEqual([call.args[0] for call in opening.call_args_list],
                         ["http://h/x/?a=b&dlcache-layout=folders", "s3://b/x/?layout=folders",
                          "s3://b/x/?layout=flat"])


if __name__ == "__main__":
    unittest.main()
