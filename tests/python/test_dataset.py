# SPDX-License-Identifier: Apache-2.0
"""dlcache.Dataset with a daemon: reading, indices, views, what is said of samples, orders."""
import array
import gc
import multiprocessing
import os
import pickle
import threading
import unittest
import weakref

import package_case
import numpy
import torch

import dlcache

N = 10
DATA = [bytes([i]) * (i * 100) for i in range(N)]  # the first is empty


class Small(package_case.Case):
    def setUp(self):
        super().setUp()
        for i, data in enumerate(DATA):
            self.write("bucket/%s/%d.bin" % ("cat" if i < 4 else "dog", i), data)
        self.ds = self.open("bucket")


class Reading(Small):
    def test_read_through(self):
        self.assertEqual(len(self.ds), N)
        self.assertEqual([bytes(v) for v in self.ds], DATA)
        self.assertEqual([self.ds.read(i) for i in range(N)], DATA)
        self.assertEqual([bytes(v) for v in self.ds.read_many(range(N))], DATA)
        self.assertEqual(self.ds.size(7), 700)
        s = self.ds.stats()
        self.assertEqual((s.misses, s.hits, s.bytes), (N, 2 * N, 3 * sum(map(len, DATA))))
        self.assertGreater(s.stall_s, 0)

    def test_integers_of_all_kinds(self):
        for i in (3, numpy.int64(3), numpy.uint8(3), torch.tensor(3), True + 2, -7, numpy.int32(-7)):
            self.assertEqual(self.ds[i], DATA[3], repr(i))
            self.assertEqual(self.ds.read(i), DATA[3])
            self.assertEqual(self.ds.key(i), "cat/3.bin")

    def test_what_is_no_index(self):
        for i in ("3", 3.0, None, b"3", (1, 2), numpy.float32(3)):
            with self.assertRaises(TypeError):
                self.ds[i]
            with self.assertRaises(TypeError):
                self.ds.read(i)
        with self.assertRaises(TypeError):
            self.ds.read_many(3)
        with self.assertRaises(TypeError):
            self.ds.read_many([1, "2"])

    def test_out_of_range(self):
        for call in (self.ds.__getitem__, self.ds.read, self.ds.key, self.ds.size, self.ds.label, self.ds.target,
                     self.ds.read_target, lambda i: self.ds.read_many([0, i]), lambda i: self.ds.prefetch([i]),
                     lambda i: self.ds.read_many(array.array("q", [0, i])), lambda i: self.ds.follow([i])):
            with self.assertRaisesRegex(IndexError, "^index 10 is out of range: the dataset has 10 samples$"):
                call(10)
            with self.assertRaisesRegex(IndexError, "^index -11 is out of range"):
                call(-11)
        with self.assertRaises(IndexError):
            self.ds[2**70]
        with self.assertRaises(IndexError):
            self.ds.read_many(numpy.array([2**64 - 1], dtype=numpy.uint64))

    def test_slices(self):
        for s in (slice(2, 5), slice(None), slice(-3, None), slice(8, 2, -2), slice(5, 2), slice(0, 100, 3)):
            self.assertEqual([bytes(v) for v in self.ds[s]], DATA[s])

    def test_read_many_takes_what_holds_integers(self):
        want = [DATA[i] for i in (5, 1, 9, 1)]
        for some in ([5, 1, -1, 1], (5, 1, 9, 1), iter([5, 1, 9, 1]), array.array("q", [5, 1, -1, 1]),
                     array.array("Q", [5, 1, 9, 1]), array.array("i", [5, 1, 9, 1]), numpy.array([5, 1, -1, 1]),
                     numpy.array([5, 1, 9, 1], dtype=numpy.uint64), numpy.array([5, 1, 9, 1], dtype=numpy.int16),
                     numpy.array([5, 0, 1, 0, 9, 0, 1, 0])[::2], torch.tensor([5, 1, 9, 1]),
                     numpy.array([5, 1, 9, 1], dtype=">i8")):
            self.assertEqual([bytes(v) for v in self.ds.read_many(some)], want, repr(some))
        self.assertEqual(self.ds.read_many([]), [])
        self.assertEqual(self.ds.read_many(numpy.array([], dtype=numpy.int64)), [])

    def test_prefetch(self):
        self.ds.prefetch(range(N))
        self.assertEqual([bytes(v) for v in self.ds.read_many(range(N))], DATA)

    def test_a_sample_that_fails_is_named(self):
        os.unlink(self.path("bucket/cat/2.bin"))
        with self.assertRaisesRegex(dlcache.Error, r"^sample 2 \(cat/2.bin\): .+"):
            self.ds[2]
        with self.assertRaisesRegex(FileNotFoundError, r"^sample 2 \(cat/2.bin\): .+"):
            self.ds.read_many([1, 2, 3])
        self.ds.follow([1, 2, 3])
        self.assertEqual(self.ds.next()[0], 1)
        with self.assertRaisesRegex(dlcache.Error, r"^sample 2 \(cat/2.bin\): .+"):
            self.ds.next()
        self.assertEqual(self.ds.next()[0], 3)

    def test_threads(self):
        """Many at once, each reading everything by all means."""
        failed = []

        def read(k):
            try:
                for i in range(300):
                    assert self.ds[(i + k) % N] == DATA[(i + k) % N]
                    assert [bytes(v) for v in self.ds.read_many(range(N))] == DATA
            except BaseException as e:
                failed.append(e)

        threads = [threading.Thread(target=read, args=(k,)) for k in range(16)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(failed, [])


class Views(Small):
    def pins(self):
        return self.ds.daemon_stats()["dataset"]["pins"]

    def test_are_read_only_bytes(self):
        v = self.ds[5]
        self.assertEqual((v.readonly, v.format, v.nbytes, v.contiguous), (True, "B", 500, True))
        with self.assertRaises(TypeError):
            v[0] = 1

    def test_pin_until_the_last_of_them_goes(self):
        a = self.ds[5]
        self.assertEqual(self.pins(), 1)
        b, c = a[10:20], numpy.frombuffer(a, dtype=numpy.uint8)
        del a
        gc.collect()
        self.assertEqual((self.pins(), bytes(b), c.sum()), (1, DATA[5][10:20], 2500))
        del c
        self.assertEqual(self.pins(), 1)
        b.release()
        self.assertEqual(self.pins(), 0)

    def test_read_many_pins_each(self):
        views = self.ds.read_many([1, 1, 2])
        self.assertEqual(self.pins(), 3)
        views.pop()
        self.assertEqual(self.pins(), 2)
        del views
        self.assertEqual(self.pins(), 0)

    def test_all_or_nothing(self):
        os.unlink(self.path("bucket/dog/9.bin"))
        with self.assertRaises(dlcache.NotFoundError):
            self.ds.read_many([1, 2, 9])
        self.assertEqual(self.pins(), 0)

    def test_after_release(self):
        with self.ds[5] as v:
            pass
        for use in (lambda: v[0], lambda: bytes(v), lambda: v.tobytes(), lambda: v[1:], lambda: numpy.frombuffer(v)):
            with self.assertRaises(ValueError):
                use()

    def test_released_under_an_array(self):
        v = self.ds[5]
        a = numpy.frombuffer(v, dtype=numpy.uint8)
        v.release()
        self.assertEqual((a.sum(), self.pins()), (2500, 1))
        del a
        self.assertEqual(self.pins(), 0)

    def test_outlive_the_dataset(self):
        v, w = self.ds[5], self.ds[6]
        self.ds.close()
        self.assertTrue(self.ds.closed)
        self.assertEqual((bytes(v), bytes(w)), (DATA[5], DATA[6]))
        del v
        gc.collect()
        self.assertEqual(bytes(w), DATA[6])

    def test_are_dropped_by_another_thread(self):
        box = [self.ds[5]]
        t = threading.Thread(target=box.clear)
        t.start()
        t.join()
        self.assertEqual(self.pins(), 0)

    def test_in_a_cycle(self):
        class Node:
            pass

        node = Node()
        node.view, node.self, node.ds = self.ds[5], node, self.ds
        gone = weakref.ref(node)
        del node
        gc.collect()
        self.assertIsNone(gone())
        self.assertEqual(self.pins(), 0)

    def test_more_than_can_be_pinned(self):
        views = self.ds.read_many([5] * 60_000)
        self.assertTrue(all(v == DATA[5] for v in views[::1000] + views[-1:]))

    def test_the_exporter_cannot_be_made(self):
        with self.assertRaises(TypeError):
            type(self.ds[1].obj)()
        self.assertEqual(bytes(memoryview(self.ds[1].obj)), DATA[1])


class Closing(Small):
    def test_closed_for_every_call(self):
        ds = self.ds
        ds.close()
        ds.close()
        self.assertIn("closed", repr(ds))
        for call in (lambda: ds[0], lambda: len(ds), lambda: ds.read(0), lambda: ds.read_many([0]),
                     lambda: ds.prefetch([0]), lambda: ds.key(0), lambda: ds.size(0), lambda: ds.find("x"),
                     lambda: ds.label(0), lambda: ds.labels, lambda: ds.classes, lambda: ds.splits,
                     lambda: ds.columns, lambda: list(ds), lambda: ds.keys[0], lambda: ds.stats(),
                     lambda: ds.daemon_stats(), lambda: ds.follow(), lambda: ds.follow_more([0]),
                     lambda: ds.advance(0, 0), lambda: ds.next(), lambda: ds.tell(), lambda: ds.state_dict(),
                     lambda: ds.take(0, 0, 1), lambda: ds.epoch_length(),
                     lambda: pickle.dumps(ds), lambda: ds.column("x", 0), lambda: ds[0:1]):
            with self.assertRaisesRegex(ValueError, "^the dataset is closed$"):
                call()

    def test_context_manager(self):
        with dlcache.open(self.url("bucket")) as ds:
            self.assertEqual(ds[1], DATA[1])
        self.assertTrue(ds.closed)

    def test_while_another_thread_reads(self):
        """The reader gets its bytes, or is told; nothing else."""
        for _ in range(20):
            ds, seen = dlcache.open(self.url("bucket")), []

            def read():
                try:
                    while True:
                        seen.append(bytes(ds[5]) == DATA[5])
                except ValueError as e:
                    seen.append(str(e) == "the dataset is closed")

            t = threading.Thread(target=read)
            t.start()
            while not seen:
                pass
            ds.close()
            t.join()
            self.assertTrue(all(seen))

    def test_a_handle_that_was_not_opened(self):
        class Lazy(dlcache.Dataset):
            def __init__(self):
                pass

        with self.assertRaisesRegex(ValueError, "closed"):
            len(Lazy())

    def test_opened_twice(self):
        with self.assertRaisesRegex(ValueError, "open already"):
            self.ds.__init__(self.url("bucket"))
        self.assertEqual(self.ds[1], DATA[1])

    def test_pickle(self):
        copy = pickle.loads(pickle.dumps(self.open("bucket", timeout=77.0, refresh=True)))
        self.addCleanup(copy.close)
        self.assertEqual((copy.url, copy.options["timeout"], copy.options["refresh"]), (self.ds.url, 77.0, False))
        self.assertEqual((copy.snapshot, copy.options["snapshot"]), (self.ds.snapshot,) * 2)
        self.assertEqual(copy[5], DATA[5])

    def test_snapshots(self):
        self.assertRegex(self.ds.snapshot, "^[0-9a-f]{16}$")
        with self.open("bucket", snapshot=self.ds.snapshot) as same:
            self.assertEqual(same.snapshot, self.ds.snapshot)
        for wrong in ("", "0" * 16, "12", "g" * 16, self.ds.snapshot.upper() + "0"):
            with self.assertRaisesRegex(ValueError, "16 hexadecimal digits"):
                self.open("bucket", snapshot=wrong)
        with self.assertRaisesRegex(ValueError, "exclude each other"):
            self.open("bucket", snapshot=self.ds.snapshot, refresh=True)
        other = "%016x" % (int(self.ds.snapshot, 16) ^ 1)
        for fails in (lambda: self.open("bucket", snapshot=other), lambda: self.ds.follow(seed=1, snapshot=other)):
            with self.assertRaisesRegex(dlcache.ChangedError, other) as caught:
                fails()
            self.assertIn(self.ds.snapshot, str(caught.exception))

    def test_spawned_and_forked_processes(self):
        for method in ("spawn", "fork"):
            with multiprocessing.get_context(method).Pool(2) as pool:
                self.assertEqual(pool.map(self.ds.read, range(N)), DATA, method)


class Described(package_case.Case):
    def test_classes_and_labels(self):
        for i, data in enumerate(DATA):
            self.write("bucket/%s/%d.bin" % ("cat" if i < 4 else "dog", i), data)
        ds = self.open("bucket")
        self.assertEqual((ds.classes, ds.class_to_idx), (["cat", "dog"], {"cat": 0, "dog": 1}))
        self.assertEqual((ds.labels.format, ds.labels.tolist()), ("q", [0] * 4 + [1] * 6))
        self.assertEqual(numpy.asarray(ds.labels).dtype, numpy.int64)
        self.assertEqual((ds.label(3), ds.label(-1), ds.target(0), ds.read_target(0)), (0, 1, None, None))
        self.assertEqual((ds.splits, ds.columns), ({}, []))
        with self.assertRaises(dlcache.NotFoundError):
            ds.column("x", 0)

    def test_nothing_is_said(self):
        self.write("bucket/a.bin", b"a")
        ds = self.open("bucket")
        self.assertEqual((ds.labels, ds.classes, ds.class_to_idx, ds.label(0)), (None, [], {}, None))

    def test_manifest(self):
        for name in ("a", "b", "c"):
            self.write("bucket/%s.bin" % name, name.encode())
        self.write("bucket/manifest.csv", b"file,label,split,note\na.bin,x,train,one\nb.bin,y,test,two\nc.bin,,train,\n")
        ds = self.open("bucket")
        splits, at = ds.splits, [ds.find(k) for k in ("a.bin", "b.bin", "c.bin")]
        self.assertEqual({k: list(v) for k, v in splits.items()},
                         {"train": sorted([at[0], at[2]]), "test": [at[1]]})
        self.assertEqual([ds.column("note", i) for i in at], ["one", "two", ""])
        self.assertIn("note", ds.columns)
        self.assertEqual([ds.label(i) for i in at], [0, 1, None])
        self.assertEqual([ds.labels[i] for i in at], [0, 1, -1])

    def test_pairs(self):
        self.write("bucket/images/1.png", b"image")
        self.write("bucket/masks/1.png", b"mask")
        ds = self.open("bucket")
        self.assertEqual((len(ds), ds.read(0), bytes(ds.read_target(0))), (1, b"image", b"mask"))
        self.assertEqual((ds.target(0), ds.target_key(0)), (1, "masks/1.png"), list(ds.keys))
        with self.assertRaises(IndexError):
            ds[ds.target(0)]

    def test_keys(self):
        odd = ["a b", "\u65e5\u672c", "x" * 250 + "/" + "y" * 250, "not\udcff\udcfeutf8", "line\nbreak"]
        for key in odd:
            self.write("bucket/" + key, key.encode("utf-8", "surrogateescape"))
        ds = self.open("bucket")
        keys = ds.keys
        self.assertEqual((set(keys), len(keys)), (set(odd), 5))
        for i, key in enumerate(keys):
            self.assertEqual((ds.find(key), keys[i], keys.index(key)), (i, key, i))
            self.assertEqual(ds.read(i), key.encode("utf-8", "surrogateescape"))
            self.assertIn(key, keys)
        self.assertEqual((keys[-1], keys[1:3]), (ds.key(4), [ds.key(1), ds.key(2)]))
        self.assertNotIn("none", keys)
        self.assertNotIn(3, keys)
        with self.assertRaisesRegex(ValueError, "not a key"):
            keys.index("none")
        with self.assertRaises(FileNotFoundError):
            ds.find("none")
        with self.assertRaises(ValueError):
            ds.find("nul\0")
        with self.assertRaises(IndexError):
            keys[5]

    def test_opening_what_is_not_there(self):
        with self.assertRaises(dlcache.InvalidError):
            dlcache.open("no-url")
        with self.assertRaises(dlcache.NotFoundError):
            dlcache.open(self.url("nowhere"))
        with self.assertRaises(dlcache.NoDaemonError):
            dlcache.open(self.url("nowhere"), spawn=False, socket=self.path("none"))
        for timeout in (0, -1, 1e9, float("nan")):
            with self.assertRaisesRegex(ValueError, "timeout"):
                dlcache.open(self.url("nowhere"), timeout=timeout)
        with self.assertRaises(TypeError):
            dlcache.open(7)


class Orders(Small):
    def epoch(self):
        return [i for i, _ in iter(self.ds.next, None)]

    def test_shuffled_is_order_list(self):
        self.ds.follow(seed=5, rank=1, world=3, epoch=2)
        self.assertEqual(self.ds.epoch_length(), 4)
        self.assertEqual(self.epoch(), list(dlcache.order_list(N, seed=5, epoch=2, rank=1, world=3)))
        self.assertEqual(self.ds.tell(), (3, 0))
        self.assertEqual(self.epoch(), list(dlcache.order_list(N, seed=5, epoch=3, rank=1, world=3)))

    def test_resumes(self):
        self.ds.follow(seed=-5)
        for _ in range(4):
            i, view = self.ds.next()
            self.assertEqual(view, DATA[i])
        epoch, position = self.ds.tell()
        rest = self.epoch()
        self.ds.follow(seed=-5, epoch=epoch, position=position)
        self.assertEqual((self.epoch(), len(rest)), (rest, 6))

    def test_relaxed_resumes(self):
        self.ds.follow(seed=8, relaxed=True)
        read = [self.ds.next()[0] for _ in range(4)]
        state = pickle.loads(pickle.dumps(self.ds.state_dict()))
        self.assertEqual((state["epoch"], state["position"]), (0, 4))
        self.ds.follow(seed=8, relaxed=True, **state)
        self.assertEqual(sorted(read + self.epoch()), list(range(N)))
        state["swaps"] = numpy.array([5, 0, 6, 0], numpy.uint64).tobytes()
        with self.assertRaisesRegex(ValueError, "from one state"):
            self.ds.follow(seed=8, relaxed=True, **state)

    def test_strict_states_have_no_swaps(self):
        self.ds.follow(seed=8)
        first = self.ds.next()[0]
        state = self.ds.state_dict()
        self.assertEqual(state, {"epoch": 0, "position": 1, "swaps": b"", "snapshot": self.ds.snapshot})
        self.ds.follow(seed=8, **state)
        self.assertEqual([first, *self.epoch()], list(dlcache.order_list(N, seed=8)))

    def test_taken_elsewhere(self):
        for relaxed in (False, True):
            self.ds.follow(seed=2, relaxed=relaxed)
            got = self.ds.take(0, 0, 4)
            self.assertEqual(self.ds.take(0, 0, 4), got)
            self.assertEqual(sorted(got + self.ds.take(0, 4, 100)), list(range(N)))
            self.assertEqual((self.ds.take(0, N, 1), len(self.ds.take(1, 3, N))), ([], N - 3))
            self.assertEqual(self.ds.tell(), (0, 0))
            self.ds.advance(0, 4, ahead=6)
            self.assertEqual(self.ds.state_dict()["position"], 4)
            with self.assertRaisesRegex(ValueError, "advance"):
                self.ds.next()
            with self.assertRaisesRegex(ValueError, "passed already"):
                self.ds.take(0, 3, 1)

    def test_sequential_range_with_an_end(self):
        self.ds.follow("sequential", first=2, count=3, epochs=2)
        self.assertEqual([self.epoch(), self.epoch(), self.epoch()], [[2, 3, 4], [2, 3, 4], []])

    def test_lists(self):
        self.ds.follow(numpy.array([3, 1, -1]))
        self.ds.follow_more([2, 2])
        with self.assertRaises(dlcache.BusyError):
            self.ds.follow_more([0])
        self.assertEqual([self.epoch(), self.epoch()], [[3, 1, 9], [2, 2]])
        with self.assertRaises(IndexError):
            self.ds.follow_more([10])

    def test_read_elsewhere(self):
        self.ds.follow(seed=1)
        self.ds.advance(0, 4, ahead=2, waited_s=0.25)
        self.assertEqual(self.ds.tell(), (0, 4))

    def test_refusals(self):
        for how in (dict(kind="random"), dict(rank=1), dict(rank=-1), dict(epoch=-1), dict(world=2**32),
                    dict(first=11), dict(kind=[])):
            with self.assertRaises(ValueError, msg=str(how)):
                self.ds.follow(**how)
        with self.assertRaisesRegex(dlcache.Error, "order"):
            self.open("bucket").next()
        with self.assertRaises(TypeError):
            self.ds.follow(seed="7")

    def test_threads_take_turns(self):
        self.ds.follow(seed=9)
        seen, lock = [], threading.Lock()

        def read():
            for _ in range(55):
                got = self.ds.next()
                with lock:
                    seen.append(got and got[0])

        threads = [threading.Thread(target=read) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual([seen.count(i) for i in [None, *range(N)]], [20] * (N + 1))


if __name__ == "__main__":
    unittest.main()
