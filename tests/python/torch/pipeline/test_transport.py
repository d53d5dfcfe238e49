# SPDX-License-Identifier: Apache-2.0
"""Batches through shared memory, both ends in this process."""
import collections
import gc
import os
import pickle
import resource
import socket
import threading
import unittest

import numpy
import torch

from dlcache.torch.pipeline import shm_slabs, transport

BIG = shm_slabs.SMALL * 2

Pair = collections.namedtuple("Pair", "left right")


class Unpicklable:
    def __reduce__(self):
        raise ValueError("not me")


class Tagged(torch.Tensor):
    pass


class Ends(unittest.TestCase):
    def setUp(self):
        ours, theirs = socket.socketpair()
        self.addCleanup(theirs.close)
        self.near, self.far = transport.ParentEnd(ours), transport.WorkerEnd(theirs)
        self.addCleanup(self.near.close)
        self.sock = theirs

    def arrive(self):
        """All parcels on their way."""
        found = []
        while True:
            before = len(self.near._in), self.near.slabs, self.near.cells is None
            got = self.near.receive()
            found += got
            if not got and before == (len(self.near._in), self.near.slabs, self.near.cells is None):
                return found

    def through(self, batch):
        self.far.send("head", self.far.pack(batch))
        (head, parcel), = self.arrive()
        self.assertEqual(head, "head")
        return parcel.open()

    def used(self):
        """Chunks of the worker that are not free."""
        self.far._allocator._collect()
        return sum(slab.used for slab in self.far._allocator._slabs.values())

    def say(self, message="go on"):
        self.near.send(message)
        self.assertEqual(self.far.receive(wait=True), (message,))

    def same(self, a):
        b = self.through([a])[0]
        self.assertEqual((a.dtype, a.shape, a.requires_grad), (b.dtype, b.shape, b.requires_grad))
        self.assertTrue(torch.equal(a.detach(), b.detach()), a)
        return b


class Tensors(Ends):
    def test_every_dtype_small_and_big(self):
        for dtype in (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64,
                      torch.half, torch.bfloat16, torch.float32, torch.float64, torch.complex64,
                      torch.complex128):
            for n in (1, 7, BIG):
                self.same(torch.arange(n).remainder(2).to(dtype))

    def test_shapes(self):
        for size in ((), (0,), (3, 0, 2), (1, 1, 1), (2, BIG)):
            self.same(torch.ones(size))

    def test_strides_are_kept_where_the_elements_are_dense(self):
        for n in (2, 64):
            t = torch.arange(n * 3 * 16 * 16.0).view(n, 3, 16, 16)
            last = t.contiguous(memory_format=torch.channels_last)
            self.assertTrue(self.same(last).is_contiguous(memory_format=torch.channels_last))
            self.assertEqual(self.same(t.transpose(0, 3)).stride(), t.transpose(0, 3).stride())
            self.same(t[:, 1:])
            self.same(t[:, :, ::2])
            self.same(torch.ones(1).expand(n, 3, 64))

    def test_gradients(self):
        for n in (3, BIG):
            leaf = torch.ones(n, requires_grad=True)
            self.assertTrue(self.same(leaf).is_leaf)
            with self.assertRaisesRegex(RuntimeError, "detach"):
                self.far.pack(leaf * 2)

    def test_conjugate_and_negative_views(self):
        t = torch.randn(BIG, dtype=torch.complex64)
        self.same(t.conj())
        self.same(t.conj().imag)

    def test_what_is_not_plain_goes_the_ordinary_way(self):
        sparse = torch.eye(4).to_sparse()
        self.assertTrue(torch.equal(self.through(sparse).to_dense(), torch.eye(4)))
        tagged = torch.ones(BIG).as_subclass(Tagged)
        tagged.tag = "x"
        self.assertIs(type(self.through(tagged)), Tagged)
        parameter = torch.nn.Parameter(torch.ones(3))
        self.assertIsInstance(self.through(parameter), torch.nn.Parameter)
        quantised = torch.quantize_per_tensor(torch.ones(4), 0.5, 0, torch.quint8)
        self.assertTrue(self.through(quantised).is_quantized)

    def test_batches_are_writable_and_their_own(self):
        a = torch.zeros(BIG)
        b = self.through((a, a[1:]))
        b[0].add_(1)
        self.assertEqual(b[1].sum(), 0)
        self.assertEqual(b[0].untyped_storage().nbytes() if hasattr(b[0], "untyped_storage")
                         else b[0].storage().nbytes(), BIG * 4)

    def test_one_object_twice_stays_one_object(self):
        a = torch.zeros(BIG)
        b = self.through([a, a])
        self.assertIs(b[0], b[1])


class Others(Ends):
    def test_structures(self):
        batch = {"a": Pair(torch.ones(3), "x"), "b": [1, 2.5, None, b"bytes" * 10000], "c": {1, 2}}
        back = self.through(batch)
        self.assertTrue(torch.equal(back["a"].left, batch["a"].left))
        self.assertEqual((back["b"], back["c"], back["a"].right), (batch["b"], batch["c"], "x"))

    def test_numpy(self):
        for n in (4, BIG):
            for a in (numpy.arange(n), numpy.arange(n * 2).reshape(2, n).T, numpy.arange(n)[::2],
                      numpy.array(["x"] * n), numpy.ones(n, dtype=[("a", "i4"), ("b", "f8")])):
                b = self.through(a)
                self.assertTrue((a == b).all())
                self.assertTrue(b.flags.writeable)

    def test_a_batch_larger_than_the_socket(self):
        text = "x" * 5_000_000
        thread = threading.Thread(target=lambda: self.far.send(1, self.far.pack([text])))
        thread.start()
        found = []
        while not found:
            found = self.near.receive()
        thread.join()
        self.assertEqual(found[0][1].open(), [text])

    def test_the_near_end_never_blocks(self):
        for k in range(100):
            self.near.send("y" * 10000 + str(k))
        self.assertTrue(self.near.pending)
        for k in range(100):
            while True:
                message = self.far.receive(wait=False)
                if message is not None:
                    break
                self.near.flush()
            self.assertEqual(message, ("y" * 10000 + str(k),))
        self.assertFalse(self.near.pending)

    def test_the_end(self):
        self.far.send("last")
        self.sock.close()
        self.assertEqual([h for h, _ in self.arrive()], ["last"])
        self.assertTrue(self.near.ended)
        self.near.send("into the void")
        self.near.send("again")
        self.assertFalse(self.near.pending)

    def test_the_parent_ends(self):
        self.near.send("bye")
        self.near.close()
        self.assertEqual(self.far.receive(wait=True), ("bye",))
        with self.assertRaises(EOFError):
            self.far.receive(wait=True)

    def test_cells(self):
        self.far.cells[2] = 7 << 40
        self.arrive()
        self.assertEqual(self.near.cells[2], 7 << 40)


class Reuse(Ends):
    def test_memory_is_used_again(self):
        for k in range(50):
            t = self.through(torch.full((BIG,), k))
            self.assertEqual(t[0], k)
            del t
            self.say()
        self.assertEqual(self.near.slabs, 1)
        self.assertEqual(len(self.far._allocator), 1)

    def test_what_is_held_is_not_touched(self):
        held = [self.through(torch.full((1 << 20,), k)) for k in range(20)]
        self.say()
        for k, t in enumerate(held):
            self.assertTrue((t == k).all())
        self.assertGreaterEqual(self.near.slabs, 20)

    def test_one_tensor_of_a_batch_keeps_only_itself(self):
        big, small = self.through((torch.zeros(1 << 20), torch.zeros(BIG)))
        slabs = self.near.slabs
        del big
        self.say()
        big, _ = self.through((torch.zeros(1 << 20), 0))
        self.assertEqual(self.near.slabs, slabs)

    def test_views_hold_the_memory_in_any_form(self):
        a, t = self.through((numpy.zeros(BIG), torch.zeros(BIG)))
        views = [memoryview(a)[5:], t[3:].view(-1, 1), t.numpy()]
        a = t = None
        self.say()
        self.through((numpy.ones(BIG), torch.ones(BIG)))
        self.assertEqual((views[0][0], float(views[1][0]), views[2][0]), (0, 0, 0))
        views.clear()
        self.say()
        self.assertEqual(len(self.near._leases), 0)

    def test_freed_in_another_thread_and_in_a_cycle(self):
        box = [self.through(torch.zeros(BIG))]
        thread = threading.Thread(target=box.clear)
        thread.start()
        thread.join()
        cycle = [self.through(torch.zeros(BIG))]
        cycle.append(cycle)
        del cycle
        gc.collect()
        self.say()
        self.assertEqual(len(self.near._leases), 0)
        self.assertEqual(self.used(), 0)

    def test_idle_slabs_are_dropped_on_both_sides(self):
        held = [self.through(torch.zeros(1 << 20)) for _ in range(10)]
        held.clear()
        for _ in range(shm_slabs.IDLE * 2):
            self.say()
            self.through(torch.zeros(BIG))
        self.assertEqual(self.near.slabs, 1)
        self.assertEqual(len(self.far._allocator), 1)

    def test_a_discarded_parcel_gives_back(self):
        self.far.send(0, self.far.pack(torch.zeros(BIG)))
        (_, parcel), = self.arrive()
        parcel.discard()
        self.say()
        self.assertEqual(self.used(), 0)

    def test_pickling_that_fails_gives_back(self):
        with self.assertRaisesRegex(ValueError, "not me"):
            self.far.pack((torch.zeros(BIG), numpy.zeros(BIG), Unpicklable()))
        self.assertEqual(self.used(), 0)
        self.assertEqual(self.far._allocator._holds, {})

    def test_no_descriptor_is_kept(self):
        before = len(os.listdir("/proc/self/fd"))
        held = [self.through(torch.zeros(1 << 20)) for _ in range(20)]
        self.assertEqual(len(os.listdir("/proc/self/fd")), before)
        held.clear()

    def test_tensors_outlive_both_ends(self):
        t = self.through(torch.full((BIG,), 3.0))
        self.near.close()
        self.sock.close()
        del self.near, self.far
        gc.collect()
        self.assertTrue((t.add_(1) == 4).all())

    def test_mappings_go_with_their_last_view(self):
        def mapped():
            with open("/proc/self/maps") as f:
                return f.read().count("dlcache-batch")
        self.doCleanups()
        self.near = self.far = None
        gc.collect()
        before = mapped()
        self.setUp()
        t = self.through(torch.zeros(BIG))
        self.assertGreater(mapped(), before)
        self.doCleanups()
        self.near = self.far = None
        gc.collect()
        self.assertGreater(mapped(), before)
        del t
        self.assertEqual(mapped(), before)


class InPlace(Ends):
    def test_a_tensor_made_there_is_not_copied(self):
        t = self.far.empty((2, BIG), torch.int16, BIG * 4)
        t.fill_(5)
        packed = self.far.pack([t])
        self.assertEqual(self.used(), 1)
        self.far.send(0, packed)
        (_, parcel), = self.arrive()
        back = parcel.open()[0]
        t[0, 0] = 6  # the same memory, seen from the worker
        self.assertEqual(back[0, 0], 6)

    def test_what_the_worker_keeps_is_not_used_again(self):
        kept = self.far.empty((BIG,), torch.uint8, BIG).fill_(1)
        self.through([kept])
        self.say()
        other = self.far.empty((BIG,), torch.uint8, BIG).fill_(2)
        self.assertTrue((kept == 1).all())
        # Sent a second time it is copied: the parent may have changed, or may keep, the first.
        a, b = self.through([kept]), self.through([kept])
        a[0].zero_()
        self.assertTrue((b[0] == 1).all())
        self.assertTrue((kept == 1).all() and (other == 2).all())

    def test_parts_of_it_are_copied(self):
        t = self.far.empty((BIG, 2), torch.uint8, BIG * 2)
        t.copy_(torch.arange(BIG * 2).remainder(251).view(BIG, 2))
        for part in (t.t(), t[1:], t[:BIG - 1], t[:, 0]):
            self.assertTrue(torch.equal(self.through([part])[0], part))

    def test_never_sent_it_is_free_again(self):
        for _ in range(300):
            self.far.empty((shm_slabs.SLAB,), torch.uint8, shm_slabs.SLAB)
        self.assertEqual(len(self.far._allocator), 1)

    def test_small_ones_are_not_worth_it(self):
        self.assertIsNone(self.far.empty((4,), torch.uint8, 4))


class Limits(Ends):
    def limit(self, what, soft):
        old = resource.getrlimit(what)
        resource.setrlimit(what, (soft, old[1]))
        self.addCleanup(resource.setrlimit, what, old)

    def test_without_shared_memory_batches_travel_in_the_pickle(self):
        self.limit(resource.RLIMIT_FSIZE, 4096)
        self.assertIsNone(self.far.empty((BIG,), torch.uint8, BIG))
        packed = self.far.pack((torch.arange(BIG), numpy.arange(BIG), torch.ones(4, BIG).t()))
        self.assertEqual(packed.table, [])
        t, a, s = pickle.loads(packed.body)
        self.assertTrue(torch.equal(t, torch.arange(BIG)) and (a == numpy.arange(BIG)).all())
        self.assertEqual(s.shape, (BIG, 4))
        t.add_(1)
        a += 1

    def test_no_descriptor_left_in_the_parent_says_what_to_do(self):
        self.far.send(0, self.far.pack(torch.zeros(BIG)))
        self.limit(resource.RLIMIT_NOFILE, 0)
        with self.assertRaisesRegex(OSError, "ulimit -n"):
            while not self.near.receive():
                pass


class Forks(Ends):
    def test_a_child_keeps_what_it_saw(self):
        t = self.through(torch.full((BIG,), 1.0))
        go, done = os.pipe(), os.pipe()
        pid = os.fork()
        if pid == 0:
            os.read(go[0], 1)
            os._exit(0 if bool((t == 1).all()) else 1)
        del t
        for k in range(5):
            self.say()
            self.through(torch.full((BIG,), 2.0 + k))
        os.write(go[1], b"x")
        self.assertEqual(os.waitpid(pid, 0)[1], 0)
        for fd in go + done:
            os.close(fd)
        self.assertLessEqual(self.near.slabs, 2)
        self.assertLessEqual(len(self.far._allocator), 1)

    def test_a_parcel_in_a_slab_that_was_given_up_still_opens(self):
        first = self.through(torch.zeros(BIG))
        self.far.send(1, self.far.pack(torch.full((BIG,), 8.0)))  # same slab
        (_, parcel), = self.arrive()
        pid = os.fork()
        if pid == 0:
            os._exit(0)
        os.waitpid(pid, 0)
        del first
        self.say()
        self.far.send("dropped")
        self.arrive()
        self.assertEqual(self.near.slabs, 0)
        self.assertTrue((parcel.open() == 8).all())


if __name__ == "__main__":
    unittest.main()
