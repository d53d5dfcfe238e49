# SPDX-License-Identifier: Apache-2.0
# timeout: 180
"""Worker processes: dealing, deaths, sizes, ends."""
import gc
import multiprocessing
import os
import random
import resource
import signal
import subprocess
import sys
import threading
import time
import unittest

import torch
from torch.utils.data import default_collate, get_worker_info

from dlcache.torch.pipeline import worker_pool
from dlcache.torch.pipeline.worker import BatchConfig, note_sample
from dlcache.torch.pipeline.worker_pool import BatchTask, WorkerDied, WorkerPool

SIDE = 64  # of the square tensors: 16 KiB as float, large enough for shared memory


class Data(torch.utils.data.Dataset):
    """data[i] is a tensor full of i. Special samples do special things."""

    def __init__(self, **special):
        self.special = special

    def __len__(self):
        return 1 << 30

    def __getitem__(self, i):
        act = self.special.get(f"s{i}")
        if act is not None:
            return act(i)
        return torch.full((SIDE, SIDE), float(i)), i


class Echo(torch.utils.data.Dataset):
    def __getitem__(self, index):
        return index


class Whole(Data):
    def __getitems__(self, indices):
        for i in indices:
            note_sample(i)
        return [self[i] for i in indices]


def who(_):
    return os.getpid()


def mapped(_=None):
    """Slabs that this process has mapped."""
    with open("/proc/self/maps") as f:
        return f.read().count("dlcache-batch")


def info(_):
    found = get_worker_info()
    name = type(found.dataset).__name__
    return found.id, found.num_workers, found.seed, name, torch.get_num_threads()


def fail(i):
    raise LookupError(f"no {i}")


def die(_):
    os.kill(os.getpid(), signal.SIGKILL)


def leave(_):
    os._exit(7)


def hang(_):
    signal.pause()


def stubborn(_):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while True:
        signal.pause()


def bad_init(ident):
    raise OSError(f"init of {ident}")


def first(samples):
    return samples[0]


class Gate:
    """A sample that waits until open() was called, in whichever process. Tells that it waits."""

    def __init__(self):
        self.reads, self.writes = os.pipe()
        self.told, self.tells = os.pipe()

    def __call__(self, i):
        os.write(self.tells, b"x")
        os.read(self.reads, 1)
        return torch.full((SIDE, SIDE), float(i)), i

    def reached(self):
        os.read(self.told, 1)

    def open(self, n=1):
        os.write(self.writes, b"x" * n)

    def close(self):
        for fd in (self.reads, self.writes, self.told, self.tells):
            os.close(fd)


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def wait_until(condition, seconds=20.0):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise AssertionError("it did not happen")
        threading.Event().wait(0.01)


def descriptors():
    return len(os.listdir("/proc/self/fd"))


class Base(unittest.TestCase):
    def pool(self, n=1, data=None, context="fork", collate=default_collate, **options):
        job = {k: options.pop(k) for k in ("worker_init_fn", "base_seed") if k in options}
        p = WorkerPool(BatchConfig(data or Data(), collate, **job), context, **options)
        self.addCleanup(p.close)
        p.resize(n)
        return p

    def gate(self):
        gate = Gate()
        self.addCleanup(gate.close)
        return gate

    def check(self, done):
        """A batch of [10n, 10n + 1, ...] is right."""
        self.assertIsNone(done.error)
        images, labels = done.batch
        self.assertEqual(labels.tolist(), [done.number * 10 + k for k in range(len(labels))])
        self.assertTrue(torch.equal(images, labels.float().view(-1, 1, 1).expand_as(images)))

    def task(self, number, n=4):
        return BatchTask(number, [number * 10 + k for k in range(n)], number)


class Work(Base):
    def run_some(self, p, count, start=0):
        """Submits as room allows; returns the numbers in order of arrival."""
        numbers, next_one = [], start
        while len(numbers) < count:
            while p.room and next_one < start + count:
                p.submit(self.task(next_one))
                next_one += 1
            done = p.receive()
            self.check(done)
            numbers.append(done.number)
        return numbers

    def test_each_batch_once(self):
        p = self.pool(3)
        self.assertEqual(p.room, 6)
        self.assertEqual(sorted(self.run_some(p, 100)), list(range(100)))
        self.assertEqual((p.outstanding, p.room), (0, 6))

    def test_spawn_and_forkserver(self):
        for context in ("spawn", multiprocessing.get_context("forkserver")):
            p = self.pool(1, context=context)
            self.assertEqual(self.run_some(p, 6), list(range(6)))
            pids = p.pids
            p.close()
            self.assertFalse(any(map(alive, pids)))

    def test_sixty_four_workers(self):
        p = self.pool(64, prefetch=1)
        self.assertEqual(p.size, 64)
        self.assertEqual(sorted(self.run_some(p, 128)), list(range(128)))
        pids = p.pids
        self.assertEqual(len(set(pids)), 64)
        p.close()
        self.assertFalse(any(map(alive, pids)))

    def test_figures(self):
        p = self.pool()
        p.submit(self.task(0))
        done = p.receive()
        self.assertEqual((done.samples, done.waited_s, done.stats), (4, 0.0, {}))
        self.assertGreater(done.busy_s, 0)
        self.assertGreater(done.cpu_s, 0)

    def test_worker_info(self):
        p = self.pool(2, Data(s1=info), base_seed=40, collate=list)
        for number in range(4):
            p.submit(BatchTask(number, [1]))
        seen = {p.receive().batch[0] for _ in range(4)}
        self.assertEqual(seen, {(0, 2, 40, "Data", 1), (1, 2, 41, "Data", 1)})

    def test_the_one_idle_longest_is_taken(self):
        p = self.pool(3, Data(s1=who), collate=first)
        wait_until(lambda: not p.poll() and
                   all(m.state == worker_pool._READY for m in p._workers.members))
        pids = []
        for number in range(9):
            p.submit(BatchTask(number, [1]))
            pids.append(p.receive().batch)
        self.assertEqual(pids[:3] * 2, pids[3:])
        self.assertEqual(len(set(pids)), 3)

    def test_first_finished_is_first(self):
        gate = self.gate()
        p = self.pool(2, Data(s0=gate))
        p.submit(self.task(0))
        p.submit(self.task(1))
        gate.reached()
        self.assertEqual(p.receive().number, 1)
        self.assertEqual(p.poll(), [])
        gate.open()
        self.assertEqual(p.receive().number, 0)

    def test_poll(self):
        p = self.pool(2)
        for number in range(4):
            p.submit(self.task(number))
        found = []
        wait_until(lambda: found.extend(p.poll()) or len(found) == 4)
        for done in found:
            self.check(done)

    def test_large_pickles_both_ways_do_not_lock_up(self):
        p = WorkerPool(BatchConfig(Echo(), list, auto_collation=False), "fork", prefetch=4)
        self.addCleanup(p.close)
        p.resize(2)
        texts = ["x" * 2_000_000 + str(number) for number in range(8)]
        for number, text in enumerate(texts):
            p.submit(BatchTask(number, [text]))
        self.assertTrue(any(m.link.pending for m in p._workers.members))
        for _ in texts:
            done = p.receive()
            self.assertEqual(done.batch, [texts[done.number]])

    def test_big_batches(self):
        p = self.pool(2, prefetch=1)
        for number in range(4):
            p.submit(BatchTask(number, list(range(2000)), 0))
        for _ in range(4):
            self.assertTrue(torch.equal(p.receive().batch[0][:, 0, 0], torch.arange(2000.0)))

    def test_threads_may_take_turns(self):
        p = self.pool(0)

        def use():
            p.resize(1)
            p.submit(self.task(0))
            self.check(p.receive())
        thread = threading.Thread(target=use)
        thread.start()
        thread.join()
        p.submit(self.task(1))
        self.check(p.receive())  # the worker has survived the thread that forked it

    def test_nothing_to_wait_for(self):
        with self.assertRaisesRegex(RuntimeError, "nothing was submitted"):
            self.pool(1).receive()
        p = self.pool(0)
        p.submit(self.task(0))
        with self.assertRaisesRegex(RuntimeError, "no workers"):
            p.receive()
        p.resize(1)
        self.check(p.receive())

    def test_timeout_names_the_batch(self):
        p = self.pool(1, Data(s2=hang), timeout=0.3)
        p.submit(BatchTask(5, [1, 2, 3]))
        pattern = r"timed out after 0.3 s.*batch 5 in worker 0 .*sample 2\b"
        with self.assertRaisesRegex(RuntimeError, pattern):
            p.receive()


class Errors(Base):
    def test_an_exception_comes_back(self):
        p = self.pool(1, Data(s42=fail))
        p.submit(BatchTask(4, [41, 42]))
        p.submit(self.task(1))
        error = p.receive().error
        self.assertIs(type(error), LookupError)
        self.assertRegex(str(error), r"worker 0, batch 4, sample 42\b")
        self.assertIn('raise LookupError(f"no {i}")', str(error))
        self.check(p.receive())

    def test_worker_init_fn_fails(self):
        p = self.pool(1, worker_init_fn=bad_init)
        p.submit(self.task(0))
        error = p.receive().error
        self.assertIsInstance(error, OSError)
        self.assertIn("init of 0", str(error))

    def test_a_batch_that_cannot_be_pickled(self):
        p = self.pool(1, collate=lambda samples: (torch.ones(1 << 20), lambda: None))
        p.submit(self.task(0))
        self.assertIn("pickle", str(p.receive().error))

    def test_a_job_that_cannot_be_pickled(self):
        before = descriptors()
        with self.assertRaises(Exception):
            self.pool(1, collate=lambda samples: samples, context="spawn")
        gc.collect()
        self.assertLessEqual(descriptors(), before + 2)  # the resource tracker's

    def test_descriptors_run_out(self):
        p = self.pool(0)
        old = resource.getrlimit(resource.RLIMIT_NOFILE)
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, old)
        resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors() + 40, old[1]))
        with self.assertRaisesRegex(OSError, "ulimit -n"):
            p.resize(64)
        resource.setrlimit(resource.RLIMIT_NOFILE, old)
        p.submit(self.task(0))
        self.check(p.receive())


class Deaths(Base):
    def died(self, p):
        with self.assertRaises(WorkerDied) as caught:
            p.receive()
        return caught.exception

    def test_killed_in_a_sample(self):
        for data in (Data, Whole):
            p = self.pool(1, data(s12=die))
            pid = p.pids[0]
            p.submit(BatchTask(3, [11, 12, 13]))
            e = self.died(p)
            if data is Data:
                self.assertEqual(e.sample, 12)
            self.assertEqual((e.indices, e.exitcode, e.pid, e.number), ([11, 12, 13], -9, pid, 3))
            self.assertRegex(str(e), r"signal 9 \(SIGKILL\), perhaps for lack of memory.*batch 3")
            self.assertEqual(p.size, 0)

    def test_exit(self):
        p = self.pool(1, Data(s0=leave))
        p.submit(BatchTask(0, [0]))
        self.assertRegex(str(self.died(p)), "exited with code 7 at sample 0 of batch 0")

    def test_the_rest_of_its_tasks_goes_to_others(self):
        p = self.pool(2, Data(s0=die), prefetch=3)
        for number in range(6):
            p.submit(self.task(number))
        seen, deaths = [], 0
        while len(seen) < 5:
            try:
                done = p.receive()
                self.check(done)
                seen.append(done.number)
            except WorkerDied as e:
                deaths += 1
                self.assertEqual(e.number, 0)
        self.assertEqual((sorted(seen), deaths), ([1, 2, 3, 4, 5], 1))

    def test_killed_while_idle(self):
        p = self.pool(1)
        p.submit(self.task(0))
        self.check(p.receive())
        os.kill(p.pids[0], signal.SIGKILL)
        with self.assertRaises(WorkerDied) as caught:
            wait_until(lambda: p.poll() and False)
        self.assertEqual(caught.exception.indices, [])
        p.resize(1)
        p.submit(self.task(1))
        self.check(p.receive())

    def test_killed_at_any_moment(self):
        rng = random.Random(4)
        for _ in range(12):
            p = self.pool(2, prefetch=3)
            for number in range(60):
                p.submit(self.task(number, 16))
            for _ in range(rng.randrange(1, 20)):
                self.check(p.receive())
            os.kill(rng.choice(p.pids), signal.SIGKILL)
            got, died = 0, None
            while p.outstanding:
                try:
                    self.check(p.receive())
                    got += 1
                except WorkerDied as e:
                    died = e
            self.assertEqual(died.exitcode, -9)
            p.close()

    def test_died_while_starting(self):
        p = self.pool(1, worker_init_fn=leave)
        p.submit(self.task(0))
        self.assertRegex(str(self.died(p)), "code 7 while it started")

    def test_its_end_is_held_by_another_process(self):
        gate, old = self.gate(), worker_pool.LOOK_S
        worker_pool.LOOK_S = 0.2
        self.addCleanup(setattr, worker_pool, "LOOK_S", old)
        p = self.pool(1, Data(s0=_fork_and_die(gate)))
        p.submit(BatchTask(0, [0]))
        self.assertEqual(self.died(p).exitcode, -9)
        gate.open()


class _fork_and_die:
    def __init__(self, gate):
        self.gate = gate

    def __call__(self, i):
        if os.fork() == 0:
            os.read(self.gate.reads, 1)
            os._exit(0)
        die(i)


class Sizes(Base):
    def test_up_and_down_under_load(self):
        p = self.pool(1)
        rng, seen, next_one = random.Random(1), [], 0
        while len(seen) < 200:
            if len(seen) % 10 == 0:
                p.resize(rng.randrange(1, 6))
            while p.room and next_one < 200:
                p.submit(self.task(next_one))
                next_one += 1
            done = p.receive()
            self.check(done)
            seen.append(done.number)
        self.assertEqual(sorted(seen), list(range(200)))
        p.resize(1)
        wait_until(lambda: not p.poll() and len(p.pids) == 1)

    def test_a_retired_worker_finishes_its_batch_and_no_more(self):
        gate = self.gate()
        p = self.pool(1, Data(s0=gate), prefetch=2)
        p.submit(self.task(0))
        gate.reached()
        p.submit(self.task(1))
        p.resize(0)
        self.assertEqual((p.size, p.room), (0, 0))
        gate.open()
        self.assertEqual(p.receive().number, 0)
        wait_until(lambda: not p.poll() and not p.pids)
        self.assertEqual(p.outstanding, 1)
        p.resize(1)
        self.check(p.receive())

    def test_a_starting_worker_keeps_nobody_waiting(self):
        gate = self.gate()
        p = self.pool(1)
        p.submit(self.task(0))
        self.check(p.receive())
        p._config = p._config._replace(worker_init_fn=gate)
        p.resize(2)
        gate.reached()
        for number in range(1, 9):
            p.submit(self.task(number))
        for number in range(1, 9):
            self.assertEqual(p.receive().number, number)
        gate.open()

    def test_numbers_of_workers_are_taken_again(self):
        p = self.pool(3, Data(s1=info), collate=first)
        p.resize(0)
        wait_until(lambda: not p.poll() and not p.pids)
        p.resize(1)
        p.submit(BatchTask(0, [1]))
        self.assertEqual(p.receive().batch[0], 0)


class Forgetting(Base):
    def test_forgotten_ones_do_not_come(self):
        gate = self.gate()
        p = self.pool(1, Data(s0=gate), prefetch=3)
        for number in range(5):
            p.submit(self.task(number))
        gate.reached()
        p.forget(5)
        self.assertEqual((p.room, p.outstanding), (3, 0))
        p.submit(self.task(5))
        gate.open()
        self.assertEqual(p.receive().number, 5)
        self.assertEqual(p.outstanding, 0)

    def test_skipped_ones_keep_their_place_among_others(self):
        gate = self.gate()
        p = self.pool(1, Data(s0=gate), prefetch=4)
        for number in (0, 9, 3, 8):
            p.submit(self.task(number))
        gate.reached()
        p.forget(5)
        gate.open()
        for number in (9, 8):
            done = p.receive()
            self.check(done)
            self.assertEqual(done.number, number)

    def test_what_is_finished_is_dropped_too(self):
        p = self.pool(2)
        for number in range(4):
            p.submit(self.task(number))
        wait_until(lambda: p._pump(0.1) and len(p._ready) == 4)
        p.forget(3)
        self.assertEqual(p.receive().number, 3)
        self.assertEqual(p.outstanding, 0)

    def test_memory_of_the_forgotten_is_used_again(self):
        p = self.pool(1)
        for number in range(100):
            p.submit(self.task(number))
            p.forget(number)
        self.check(p.receive())
        self.assertLessEqual(p._workers.members[0].link.slabs, 2)


class Leaks(Base):
    def test_descriptors_and_slabs(self):
        p = self.pool(2)
        for number in range(20):
            p.submit(self.task(number))
        for _ in range(20):
            p.receive()
        before = descriptors()
        worker_fds = [len(os.listdir(f"/proc/{pid}/fd")) for pid in p.pids]
        for number in range(1000):
            p.submit(self.task(number))
            done = p.receive()
        self.assertEqual(descriptors(), before)
        self.assertEqual([len(os.listdir(f"/proc/{pid}/fd")) for pid in p.pids], worker_fds)
        self.assertLessEqual(max(m.link.slabs for m in p._workers.members), 2)
        self.check(done)

    def test_pools_leave_nothing(self):
        gc.collect()
        before, maps = descriptors(), mapped()
        for k in range(10):
            p = self.pool(2)
            p.submit(self.task(k))
            self.check(p.receive())
            p.close()
        del p
        self.doCleanups()
        gc.collect()
        self.assertEqual((descriptors(), mapped()), (before, maps))


    def test_a_worker_keeps_nothing_of_the_others(self):
        p = self.pool(2, Data(s5=mapped), collate=list)
        for number in range(8):
            p.submit(BatchTask(number, [1, 2]))
        held = p.receive().batch
        wait_until(lambda: p._pump(0.1) and len(p._ready) == 7)
        p.forget(8)
        p.resize(0)
        wait_until(lambda: not p.poll() and not p.pids)
        p.resize(1)
        p.submit(BatchTask(9, [5]))
        self.assertLessEqual(p.receive().batch[0], 2)  # its own cells, and what is held
        self.assertEqual(held[0][1], 1)


class Ends(Base):
    def test_tensors_outlive_the_pool(self):
        p = self.pool(1)
        p.submit(self.task(7))
        done = p.receive()
        p.close()
        self.check(done)
        done.batch[0].add_(1)

    def test_twice_and_afterwards(self):
        p = self.pool(2)
        p.close()
        p.close()
        self.assertTrue(p.closed)
        for use in (lambda: p.resize(1), lambda: p.submit(self.task(0)), lambda: p.forget(1),
                    p.receive, p.poll):
            with self.assertRaisesRegex(RuntimeError, "closed"):
                use()

    def test_busy_and_stubborn_workers(self):
        old = worker_pool.ASK_S, worker_pool.TERM_S
        worker_pool.ASK_S = worker_pool.TERM_S = 0.2
        self.addCleanup(lambda: worker_pool.__dict__.update(zip(("ASK_S", "TERM_S"), old)))
        p = self.pool(2, Data(s0=hang, s1=stubborn))
        p.submit(BatchTask(0, [0]))
        p.submit(BatchTask(1, [1]))
        pids = p.pids


        def both_busy():
            p._pump(0.0)
            cells = [m.link.cells for m in p._workers.members]
            return all(c is not None and c[1] >= 0 for c in cells)
        wait_until(both_busy)
        p.close()
        self.assertFalse(any(map(alive, pids)))

    def test_a_pool_that_is_lost(self):
        p = WorkerPool(BatchConfig(Data(), default_collate), "fork")
        p.resize(2)
        p.submit(self.task(0))
        pids = p.pids
        del p
        gc.collect()
        self.assertFalse(any(map(alive, pids)))

    def test_a_forked_child_does_no_harm(self):
        p = self.pool(2)
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                p.submit(self.task(0))
            except RuntimeError:
                p.close()
                code = 0
            os._exit(code)
        self.assertEqual(os.waitpid(pid, 0)[1], 0)
        p.submit(self.task(1))
        self.check(p.receive())


SCRIPT = """
import os, signal, sys, torch
sys.path.insert(0, {here!r})
from test_worker_pool import *
if __name__ == "__main__":
    p = WorkerPool(BatchConfig(Data(s99=hang), default_collate), {context!r})
    p.resize(2)
    p.submit(BatchTask(0, [1, 2]))
    p.submit(BatchTask(1, [1, 99]))
    kept = p.receive().batch
    print(*p.pids, flush=True)
    {then}
"""


class Scripts(Base):
    """Ends of whole programs. No worker may be left."""

    def script(self, then, context="fork", sig=None):
        path = os.path.join(os.environ.get("TEST_DIR", "/tmp"), f"pool-script-{os.getpid()}.py")
        with open(path, "w") as f:
            here = os.path.dirname(os.path.abspath(__file__))
            f.write(SCRIPT.format(here=here, context=context, then=then))
        self.addCleanup(os.unlink, path)
        child = subprocess.Popen([sys.executable, path], stdout=subprocess.PIPE, text=True,
                                 stderr=subprocess.PIPE, start_new_session=True)
        pids = [int(pid) for pid in child.stdout.readline().split()]
        self.assertEqual(len(pids), 2)
        if sig == signal.SIGINT:
            os.killpg(child.pid, sig)
        elif sig is not None:
            os.kill(child.pid, sig)
        _, errors = child.communicate(timeout=60)
        wait_until(lambda: not any(map(alive, pids)))
        return child.returncode, errors

    def test_falls_off_the_end_with_everything_alive(self):
        self.assertEqual(self.script("pass"), (0, ""))

    def test_sys_exit_in_mid_batch(self):
        self.assertEqual(self.script("sys.exit(3)"), (3, ""))

    def test_ctrl_c(self):
        code, errors = self.script("p.receive()", sig=signal.SIGINT)
        self.assertEqual(code, -signal.SIGINT)
        self.assertEqual(errors.count("Traceback"), 1, errors)
        self.assertIn("KeyboardInterrupt", errors)

    def test_parent_killed(self):
        self.assertEqual(self.script("p.receive()", sig=signal.SIGKILL)[0], -9)


if __name__ == "__main__":
    unittest.main()
