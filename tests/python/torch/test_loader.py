# SPDX-License-Identifier: Apache-2.0
# timeout: 120
import gc
import contextlib
import io
import itertools
import json
import multiprocessing
import os
import pickle
import random
import signal
import subprocess
import sys
import threading
import time
import unittest
import warnings
import weakref

import numpy
import torch
from torch.utils.data import (BatchSampler, DistributedSampler, IterableDataset, RandomSampler,
                              SequentialSampler, Subset, SubsetRandomSampler)
from torch.utils.data import DataLoader as Theirs

from dlcache.torch import DataLoader, Shuffle
from dlcache.torch.order.samplers import distributed
from dlcache.torch.pipeline.host_limits import cores


def setUpModule():
    warnings.filterwarnings("ignore", "This DataLoader will create")


class Numbers(torch.utils.data.Dataset):
    def __init__(self, n=37):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        return {"x": torch.full((3, 5), float(i)), "i": int(i), "text": "sample %d" % i}


class Getitems(Numbers):
    def __getitems__(self, indices):
        return [self[i] for i in reversed(indices)]


class Noise(Numbers):
    """Random transforms, by all three sources."""

    def __getitem__(self, i):
        return i, torch.rand(()).item(), random.random(), numpy.random.random()


class Whose(Numbers):
    """The process that made it."""

    def __getitem__(self, i):
        return os.getpid()


class Slow(Numbers):
    """Later samples are made sooner."""

    def __getitem__(self, i):
        threading.Event().wait(0.03 if i < 4 else 0)
        return i


class Faulty(Numbers):
    def __getitem__(self, i):
        if i == 17:
            raise KeyError("seventeen")
        if i == 23:
            raise StopIteration
        return i


class Deadly(Numbers):
    def __getitem__(self, i):
        if i == 17 and torch.utils.data.get_worker_info() is not None:
            os.kill(os.getpid(), signal.SIGKILL)
        return i


class Hanging(Numbers):
    def __getitem__(self, i):
        threading.Event().wait()


class Stream(IterableDataset):
    def __iter__(self):
        return iter(range(10))


def generator(seed):
    return torch.Generator().manual_seed(seed)


def keep_list(batch):
    return list(batch)


def plain(batch):
    """Comparable with ==, types included."""
    if isinstance(batch, torch.Tensor):
        return "tensor", str(batch.dtype), batch.tolist()
    if isinstance(batch, dict):
        return {k: plain(v) for k, v in batch.items()}
    if isinstance(batch, (list, tuple)):
        return type(batch).__name__, [plain(b) for b in batch]
    return type(batch).__name__, batch


def indices(loader, n=None):
    """What a loader of plain numbers gives in one iteration, or the first n batches of it."""
    return [i for b in itertools.islice(loader, n) for i in b.tolist()]


class Equivalence(unittest.TestCase):
    """Batch by batch what torch's loader gives."""

    def check(self, dataset, **args):
        with self.subTest(**{k: str(v) for k, v in args.items()}):
            made = {k: v() if callable(v) and k in ("sampler", "batch_sampler", "generator") else v
                    for k, v in args.items()}
            again = {k: v() if callable(v) and k in ("sampler", "batch_sampler", "generator") else v
                     for k, v in args.items()}
            ours = DataLoader(dataset, **made)
            again.update(num_workers=0, persistent_workers=False)
            for of_workers in ("prefetch_factor", "timeout"):
                again.pop(of_workers, None)
            theirs = Theirs(dataset, **again)
            for _ in range(2):
                self.assertEqual([plain(b) for b in ours], [plain(b) for b in theirs])
            self.assertEqual(len(ours), len(theirs))
            for name in ("batch_size", "drop_last", "collate_fn", "pin_memory"):
                self.assertEqual(getattr(ours, name), getattr(theirs, name))

    def test_sizes(self):
        for workers in (0, 2):
            for size, drop_last in ((1, False), (5, False), (5, True), (37, True), (50, False),
                                    (50, True)):
                self.check(Numbers(), batch_size=size, drop_last=drop_last, num_workers=workers)
            self.check(Numbers(), batch_size=None, num_workers=workers)
            self.check(Numbers(0), batch_size=2, num_workers=workers)

    def test_samplers(self):
        n = range(37)
        samplers = {
            "sequential": lambda: SequentialSampler(n),
            "random": lambda: RandomSampler(n, generator=generator(1)),
            "replacement": lambda: RandomSampler(n, True, 50, generator=generator(1)),
            "subset": lambda: SubsetRandomSampler(range(3, 20), generator=generator(1)),
            "list": lambda: [5, 3, 3, 36],
            "numpy": lambda: numpy.array([5, 3, 3, 36]),
            "distributed": lambda: DistributedSampler(n, 3, 1),
            "empty": lambda: [],
        }
        for workers in (0, 2):
            for sampler in samplers.values():
                self.check(Numbers(), sampler=sampler, batch_size=4, num_workers=workers)
            self.check(Numbers(), sampler=samplers["random"], batch_size=None, num_workers=workers)

    def test_batch_samplers(self):
        for workers in (0, 2):
            for batches in (lambda: BatchSampler(RandomSampler(range(37), generator=generator(2)),
                                                 4, True),
                            lambda: [[1, 2, 3], [4], [0, 0, 0, 36]],
                            lambda: [(1, 2), (3, 4)]):
                self.check(Numbers(), batch_sampler=batches, num_workers=workers)

    def test_datasets_and_collation(self):
        for workers in (0, 2):
            self.check(Getitems(), batch_size=4, num_workers=workers)
            self.check(Subset(Numbers(), [4, 3, 8, 1]), batch_size=3, num_workers=workers)
            self.check(list(range(10)), batch_size=3, num_workers=workers)
            self.check(Numbers(), batch_size=4, collate_fn=keep_list, num_workers=workers)
            self.check({"a": 1, "b": 2}, sampler=lambda: ["b", "a"], batch_size=None,
                       num_workers=workers)
            self.check(Numbers(), batch_size=None, sampler=lambda: [3, 1], num_workers=workers,
                       collate_fn=keep_list)

    def test_other_arguments(self):
        self.check(Numbers(), batch_size=4, num_workers=2, persistent_workers=True)
        self.check(Numbers(), batch_size=4, num_workers=2, prefetch_factor=5, timeout=60)
        self.check(Numbers(), batch_size=4, num_workers=1, worker_init_fn=print_nothing)
        self.check(Numbers(), batch_size=4, num_workers="auto", generator=lambda: generator(4))

    def test_iterable_datasets_go_to_torch(self):
        for workers in ("auto", 0, 1):
            loader = DataLoader(Stream(), batch_size=4, num_workers=workers)
            self.assertGreaterEqual(loader.num_workers, 0)
            got = sorted(i for b in loader for i in b.tolist())
            self.assertEqual(sorted(set(got)), list(range(10)))
        with self.assertRaisesRegex(TypeError, "IterableDataset"):
            loader.state_dict()
        with self.assertRaises(ValueError):
            DataLoader(Stream(), shuffle=True)

    def test_refusals_are_those_of_torch(self):
        wrong = ({"num_workers": -1}, {"timeout": -1}, {"num_workers": 0, "prefetch_factor": 4},
                 {"num_workers": 0, "persistent_workers": True},
                 {"sampler": [1], "shuffle": True}, {"batch_sampler": [[1]], "batch_size": 2},
                 {"batch_sampler": [[1]], "drop_last": True},
                 {"batch_size": None, "drop_last": True}, {"batch_size": 0},
                 {"num_workers": 1, "multiprocessing_context": "thread"},
                 {"num_workers": 0, "multiprocessing_context": "fork"})
        for args in wrong:
            with self.subTest(**args), self.assertRaises(ValueError):
                DataLoader(Numbers(), **args)
            with self.assertRaises(ValueError):
                Theirs(Numbers(), **args)
        for args in ({"num_workers": "many"}, {"order": "loose"}, {"max_workers": 0},
                     {"epochs": 0}):
            with self.subTest(**args), self.assertRaises(ValueError):
                DataLoader(Numbers(), **args)
        loader = DataLoader(Numbers())
        with self.assertRaises(ValueError):
            loader.batch_size = 3


def print_nothing(ident):
    pass


class Order(unittest.TestCase):
    def test_shuffled_each_once_in_every_epoch(self):
        for args in ({"num_workers": 0}, {"num_workers": 2}, {"num_workers": 3, "order": "relaxed"},
                     {"num_workers": 2, "persistent_workers": True}, {"num_workers": "auto"}):
            with self.subTest(**args):
                loader = DataLoader(list(range(100)), batch_size=7, shuffle=True, **args)
                epochs = [indices(loader) for _ in range(3)]
                for epoch in epochs:
                    self.assertEqual(sorted(epoch), list(range(100)))
                self.assertEqual(len(set(map(tuple, epochs))), 3)

    def test_generator_says_all(self):
        def run(seed, workers):
            loader = DataLoader(Noise(), batch_size=4, shuffle=True, num_workers=workers,
                                generator=generator(seed))
            return [plain(b) for _ in range(2) for b in loader]

        first = run(1, 2)
        self.assertEqual(first, run(1, 0))
        self.assertEqual(first, run(1, 3))
        self.assertNotEqual(first, run(2, 2))
        drawn = [x for _, batch in first for x in batch[1][2]]
        self.assertEqual(len(set(drawn)), len(drawn))

    def test_without_generator_torch_is_asked(self):
        torch.manual_seed(5)
        first = indices(DataLoader(list(range(50)), shuffle=True, num_workers=0))
        torch.manual_seed(5)
        self.assertEqual(first, indices(DataLoader(list(range(50)), shuffle=True, num_workers=2)))

    def test_sampler_is_a_shuffle(self):
        loader = DataLoader(list(range(50)), batch_size=5, shuffle=True, num_workers=1,
                            persistent_workers=True)
        self.assertIsInstance(loader.sampler, Shuffle)
        first, second = indices(loader), indices(loader)
        loader.sampler.set_epoch(0)
        self.assertEqual(indices(loader), first)
        self.assertEqual(indices(loader), first)
        loader.sampler.set_epoch(1)
        self.assertEqual(indices(loader), second)

    def test_strict_and_relaxed(self):
        strict = DataLoader(Slow(12), batch_size=1, num_workers=3)
        self.assertEqual(indices(strict), list(range(12)))
        for args in ({"order": "relaxed"}, {"in_order": False}):
            relaxed = DataLoader(Slow(12), batch_size=4, num_workers=2, **args)
            self.assertEqual(indices(relaxed)[:4], [4, 5, 6, 7])

    def test_random_numbers_of_the_user_are_not_touched(self):
        for workers in (0, 2):
            loader = DataLoader(Noise(), batch_size=4, sampler=RandomSampler(range(37)),
                                num_workers=workers, generator=generator(0))
            before = torch.get_rng_state(), random.getstate()
            list(loader)
            self.assertTrue(torch.equal(torch.get_rng_state(), before[0]))
            self.assertEqual(random.getstate(), before[1])


class Iterations(unittest.TestCase):
    def test_dropped_and_begun_again(self):
        for args in ({"num_workers": 0}, {"num_workers": 2},
                     {"num_workers": 2, "persistent_workers": True}):
            with self.subTest(**args):
                loader = DataLoader(list(range(40)), batch_size=4, **args)
                for n in (1, 3, 0, 9, 10):
                    self.assertEqual(indices(loader, n), list(range(4 * n)))
                self.assertEqual(indices(loader), list(range(40)))

    def test_nested_and_at_once(self):
        for args in ({"num_workers": 0}, {"num_workers": 2},
                     {"num_workers": 2, "persistent_workers": True}):
            with self.subTest(**args):
                loader = DataLoader(list(range(12)), batch_size=4, **args)
                got = [(a.tolist()[0], indices(loader)) for a in loader]
                self.assertEqual(got, [(a, list(range(12))) for a in (0, 4, 8)])
                pairs = [(a.tolist()[0], b.tolist()[0]) for a, b in zip(loader, loader)]
                self.assertEqual(pairs, [(0, 0), (4, 4), (8, 8)])

    def test_an_iterator_is_one(self):
        loader = DataLoader(list(range(10)), batch_size=4, num_workers=1)
        it = iter(loader)
        self.assertIs(iter(it), it)
        self.assertEqual((len(it), len(loader)), (3, 3))
        list(it)
        self.assertEqual(list(it), [])
        self.assertIsInstance(loader, Theirs)

    def test_workers_end(self):
        loader = DataLoader(list(range(40)), batch_size=4, num_workers=2)
        list(loader)
        self.assertEqual(multiprocessing.active_children(), [])
        it = iter(loader)
        next(it)
        self.assertEqual(len(multiprocessing.active_children()), 2)
        del it
        self.assertEqual(multiprocessing.active_children(), [])

    def test_kept_workers_are_the_same_and_end_with_the_loader(self):
        loader = DataLoader(list(range(40)), batch_size=4, num_workers=2, persistent_workers=True)
        list(loader)
        pids = {p.pid for p in multiprocessing.active_children()}
        self.assertEqual(len(pids), 2)
        indices(loader, 2)
        self.assertEqual({p.pid for p in multiprocessing.active_children()}, pids)
        dead = weakref.ref(loader)
        del loader
        gc.collect()
        self.assertIsNone(dead())
        self.assertEqual(multiprocessing.active_children(), [])

    def test_next_epoch_is_made_ahead(self):
        loader = DataLoader(Slow(8), batch_size=2, num_workers=2, persistent_workers=True)
        list(loader)
        batch_queue = loader._engine._pipeline.batch_queue
        self.assertEqual(len(batch_queue._given) + batch_queue._ahead.held(), 4)
        while batch_queue._given:
            batch_queue._take(batch_queue._pool.receive(20))
        self.assertEqual(batch_queue._ahead.held(), 4)
        began = time.monotonic()
        self.assertEqual(indices(loader, 2), [0, 1, 2, 3])
        self.assertLess(time.monotonic() - began, 0.05)

    def test_many_workers(self):
        loader = DataLoader(list(range(200)), batch_size=1, num_workers=64)
        self.assertEqual(indices(loader), list(range(200)))

    def test_number_of_workers_can_be_changed(self):
        loader = DataLoader(list(range(20)), batch_size=2, num_workers=1, persistent_workers=True)
        list(loader)
        loader.num_workers = 3
        self.assertEqual(indices(loader, 1), [0, 1])
        self.assertEqual(len(multiprocessing.active_children()), 3)

    def test_copies(self):
        loader = DataLoader(list(range(10)), batch_size=4, num_workers=0, generator=None)
        list(loader)
        self.assertEqual(indices(pickle.loads(pickle.dumps(loader))), list(range(10)))

    def test_the_first_batch_is_made_here_while_workers_start(self):
        for given, here in (({}, True), ({"num_workers": 2}, False),
                            ({"worker_init_fn": id}, False)):
            pids = [int(b[0]) for b in DataLoader(Whose(8), batch_size=1, **given)]
            self.assertEqual([p == os.getpid() for p in pids], [here] + [False] * 7, given)

    def test_auto_means_auto_for_those_who_copy(self):
        loader = DataLoader(list(range(10)), num_workers="auto")
        again = DataLoader(list(range(10)), num_workers=loader.num_workers)
        self.assertEqual(type(again.num_workers), type(loader.num_workers))
        self.assertGreater(loader.num_workers, 0)


class Contexts(unittest.TestCase):
    def test_all_start_methods(self):
        for method in ("fork", "spawn", "forkserver"):
            for context in (method, multiprocessing.get_context(method)):
                if method != "fork" and not isinstance(context, str):
                    continue
                with self.subTest(context=str(context)):
                    loader = DataLoader(Numbers(12), batch_size=4, num_workers=1,
                                        multiprocessing_context=context, persistent_workers=True)
                    for _ in range(2):
                        self.assertEqual([b["i"].tolist() for b in loader],
                                         [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]])

    def test_in_a_forked_child(self):
        loader = DataLoader(list(range(10)), batch_size=4, num_workers=1, persistent_workers=True)
        it = iter(loader)
        next(it)
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                os.write(write, json.dumps(indices(loader)).encode())
            finally:
                os._exit(0)
        os.close(write)
        with os.fdopen(read) as f:
            self.assertEqual(json.load(f), list(range(10)))
        os.waitpid(pid, 0)
        self.assertEqual([i for b in it for i in b.tolist()], list(range(4, 10)))


class Failures(unittest.TestCase):
    def test_an_error_comes_in_its_place(self):
        for workers in (0, 2):
            loader = DataLoader(Faulty(), batch_size=3, num_workers=workers)
            it = iter(loader)
            got = [next(it).tolist() for _ in range(5)]
            self.assertEqual(got[-1], [12, 13, 14])
            with self.assertRaisesRegex(KeyError, "seventeen"):
                next(it)
            self.assertEqual(next(it).tolist(), [18, 19, 20])  # as torch does
            with self.assertRaises(RuntimeError):  # a StopIteration must not end the epoch
                next(it)
            self.assertEqual(indices(loader, 2), [0, 1, 2, 3, 4, 5])

    def test_a_dead_worker_is_named_and_the_loader_lives(self):
        for keep in (False, True):
            loader = DataLoader(Deadly(), batch_size=4, num_workers=2, persistent_workers=keep)
            with self.assertRaisesRegex(RuntimeError, r"process \d+ was killed by signal 9 .*17"):
                list(loader)
            self.assertEqual(multiprocessing.active_children(), [])
            self.assertEqual(indices(loader, 1), [0, 1, 2, 3])

    def test_a_timeout(self):
        loader = DataLoader(Hanging(), num_workers=1, timeout=0.2)
        with self.assertRaisesRegex(RuntimeError, "timed out after 0.2 seconds"):
            next(iter(loader))
        self.assertEqual(multiprocessing.active_children(), [])

    def test_a_sampler_that_raises(self):
        class Bad(Shuffle):
            def __iter__(self):
                raise OSError("no list")

        loader = DataLoader(Numbers(), sampler=Bad(37), num_workers=1)
        with self.assertRaisesRegex(OSError, "no list"):
            iter(loader)


class Interrupting(Numbers):
    """Presses Ctrl-C when it is read for the first time, and hangs."""

    def __getitem__(self, i):
        if i == 0:
            print(os.getpid(), flush=True)
            os.killpg(0, signal.SIGINT)
        threading.Event().wait()


class Interrupts(unittest.TestCase):
    """In processes of their own."""

    def run_script(self, text):
        head = ("import multiprocessing, sys\n"
                "sys.path.insert(0, %r)\n"
                "from dlcache.torch import DataLoader\n"
                "from test_loader import Interrupting, Numbers\n"
                % os.path.dirname(os.path.abspath(__file__)))
        p = subprocess.run([sys.executable, "-c", head + text], capture_output=True, text=True,
                           start_new_session=True, timeout=60)
        self.assertEqual((p.returncode, p.stderr), (0, ""))
        pids = p.stdout.split()
        self.assertTrue(pids)
        for pid in pids:
            self.assertFalse(os.path.exists("/proc/" + pid), "a worker is left")

    def test_control_c_leaves_nothing(self):
        self.run_script(
            "loader = DataLoader(Interrupting(), num_workers=2, persistent_workers=True)\n"
            "try:\n    next(iter(loader))\n"
            "except KeyboardInterrupt:\n    pass\n"
            "else:\n    raise SystemExit('not interrupted')\n"
            "assert not multiprocessing.active_children()\n")

    def test_the_end_of_the_interpreter_is_quiet(self):
        self.run_script(
            "ended = DataLoader(Numbers(), num_workers=2)\n"
            "kept = DataLoader(Numbers(), num_workers=2, persistent_workers=True)\n"
            "a, b = iter(ended), iter(kept)\nnext(a), next(b)\n"
            "print(*[p.pid for p in multiprocessing.active_children()], flush=True)\n")


class States(unittest.TestCase):
    def loader(self, **args):
        return DataLoader(Noise(), **{"batch_size": 4, "shuffle": True, "num_workers": 2, **args})

    def test_exact_in_mid_epoch(self):
        for args in ({}, {"num_workers": 0}, {"persistent_workers": True},
                     {"shuffle": False, "sampler": RandomSampler(range(37))},
                     {"shuffle": False,
                      "sampler": RandomSampler(range(37), generator=generator(4))}):
            loader = self.loader(generator=generator(7), **args)
            whole = [plain(b) for _ in range(2) for b in loader]
            for at in (0, 1, 9, 10, 13):
                with self.subTest(at=at, **{k: str(v) for k, v in args.items()}):
                    if "sampler" in args and args["sampler"].generator is not None:
                        args["sampler"].generator.manual_seed(4)
                    loader = self.loader(generator=generator(7), **args)
                    stream = (plain(b) for _ in range(2) for b in loader)
                    self.assertEqual(list(itertools.islice(stream, at)), whole[:at])
                    file = io.BytesIO()
                    torch.save(json.loads(json.dumps(loader.state_dict())), file)
                    file.seek(0)
                    again = self.loader(**dict(args, num_workers=1 if at % 2 else 0,
                                               persistent_workers=None))
                    again.load_state_dict(torch.load(file))
                    rest = []
                    while len(rest) < len(whole) - at:
                        rest += [plain(b) for b in again]
                    self.assertEqual(rest, whole[at:])

    def test_at_the_very_end_nothing_is_left(self):
        loader = self.loader()
        it = iter(loader)
        for _ in range(10):
            next(it)
        again = self.loader()
        again.load_state_dict(loader.state_dict())
        self.assertEqual(list(again), [])
        with self.assertRaises(StopIteration):
            next(it)
        again.load_state_dict(loader.state_dict())
        self.assertEqual(len(list(again)), 10)

    def test_taken_back_while_an_iteration_lives(self):
        loader = DataLoader(list(range(20)), batch_size=2, num_workers=1, persistent_workers=True)
        it = iter(loader)
        got = [next(it).tolist() for _ in range(3)]
        state = loader.state_dict()
        got += [b.tolist() for b in itertools.islice(it, 4)]
        loader.load_state_dict(state)
        got.append(next(it).tolist())
        self.assertEqual(sum(got, []), list(range(16)))
        self.assertEqual(indices(loader), list(range(6, 20)))
        self.assertEqual(indices(loader), list(range(20)))

    def test_relaxed(self):
        loader = DataLoader(Slow(40), batch_size=4, num_workers=2, order="relaxed")
        it = iter(loader)
        got = [i for _ in range(3) for i in next(it).tolist()]
        again = DataLoader(Slow(40), batch_size=4, num_workers=2, order="relaxed")
        again.load_state_dict(loader.state_dict())
        self.assertEqual(len(iter(again)), 7)
        again.load_state_dict(loader.state_dict())
        self.assertEqual(sorted(got + indices(again)), list(range(40)))

    def test_on_another_number_of_ranks(self):
        def ranks(kind, world):
            made = []
            for r in range(world):
                sampler = (Shuffle(50, rank=r, world=world) if kind is Shuffle
                           else DistributedSampler(range(50), world, r))
                made.append(DataLoader(list(range(50)), batch_size=3, sampler=sampler,
                                       num_workers=1 if r else 0))
            return made

        def turns(iterators, n):
            found = []
            for batches in zip(*(itertools.islice(i, n) for i in iterators)):
                found += [i for turn in zip(*(b.tolist() for b in batches)) for i in turn]
            return found

        for kind in (Shuffle, DistributedSampler):
            whole = turns(map(iter, ranks(kind, 1)), None)
            for then, now in ((1, 2), (2, 3), (3, 1), (2, 2)):
                before = ranks(kind, then)
                got = turns(list(map(iter, before)), 3)
                after = ranks(kind, now)
                for loader in after:
                    loader.load_state_dict(before[0].state_dict())
                got += turns(list(map(iter, after)), None)
                self.assertEqual(got[:50], whole)
                self.assertLess(len(got), 50 + now)


class Spin(Numbers):
    """A hundredth of a second of computing."""

    def __getitem__(self, i):
        end = time.thread_time() + 0.01
        while time.thread_time() < end:
            pass
        return i


class Reports(unittest.TestCase):
    def test_counts_what_was_handed_out(self):
        for workers in (0, 2):
            loader = DataLoader(Spin(20), batch_size=4, num_workers=workers)
            self.assertEqual(loader.report().samples, 0)
            list(loader)
            indices(loader, 2)
            report = loader.report()
            self.assertEqual((report.samples, report.batches, report.epochs), (28, 7, 1))
            self.assertEqual(report.workers, workers)
            self.assertGreater(report.waited_s, 0)
            self.assertLessEqual(report.waited_s, report.wall_s)
            self.assertAlmostEqual(sum(report.cause.values()), 1)
            if workers:
                self.assertGreater(report.cpu_share, 0.8)  # also where cores are short
            self.assertGreater(report.sample_s, 0.01)

    def test_progress_is_one_line(self):
        script = ("from dlcache.torch import DataLoader\n"
                  "loader = DataLoader(list(range(50)), num_workers=0, progress=True)\n"
                  "for epoch in range(2):\n    list(loader)\n")
        p = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
        self.assertEqual((p.returncode, p.stdout), (0, ""))
        self.assertLessEqual(len(p.stderr.splitlines()), 1)

    def test_progress_ends_its_line_when_the_loop_is_left(self):
        script = ("import sys\nfrom dlcache.torch import DataLoader\n"
                  "loader = DataLoader(list(range(50)), num_workers=0, progress=True)\n"
                  "for batch in loader:\n    break\n"
                  "del batch\nprint('after', file=sys.stderr)\n")
        terminal, theirs = os.openpty()
        p = subprocess.Popen([sys.executable, "-c", script], stderr=theirs)
        os.close(theirs)
        text = b""
        with contextlib.suppress(OSError):  # how the end of a terminal is told
            while more := os.read(terminal, 4096):
                text += more
        os.close(terminal)
        self.assertEqual(p.wait(), 0)
        self.assertIn(b"samples/s", text)
        self.assertIn("after", text.decode().splitlines(), text)

    def test_more_workers_than_cores_are_not_taken_to_wait(self):
        loader = DataLoader(Spin(400), batch_size=2, num_workers="auto")
        for n, batch in enumerate(loader):
            if n == 60:
                break
        self.assertLessEqual(loader.report().workers_most, cores() + 1)


class Defaults(unittest.TestCase):
    def test_a_plain_loader_does_not_shard(self):
        self.assertEqual(distributed(), (0, 1))
        loader = DataLoader(Numbers())
        self.assertEqual((loader.sampler.rank, loader.sampler.world), (0, 1))

    @unittest.skipIf(torch.cuda.is_available(), "there is a GPU")
    def test_pinning_without_gpu_is_refused_softly(self):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            got = indices(DataLoader(list(range(4)), pin_memory=True, num_workers=0))
        self.assertEqual(got, [0, 1, 2, 3])
        self.assertIn("not pinned", str(caught[-1].message))


if __name__ == "__main__":
    unittest.main()
