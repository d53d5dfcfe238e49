# SPDX-License-Identifier: Apache-2.0
"""Slabs and the heap of a worker."""
import gc
import os
import resource
import unittest

from dlcache.torch.pipeline import shm_slabs
from dlcache.torch.pipeline.shm_slabs import SLAB, SMALL, SlabAllocator, raw


class Heaps(unittest.TestCase):
    def setUp(self):
        self.announced = []
        self.heap = SlabAllocator(lambda slab, fd: self.announced.append((slab.size, os.fstat(fd).st_size)))

    def test_sizes(self):
        for nbytes, chunk in ((1, SMALL), (SMALL, SMALL), (SMALL + 1, 2 * SMALL), (SLAB, SLAB),
                              (SLAB + 1, 2 * SLAB)):
            taken = self.heap.take(nbytes)
            self.assertEqual(len(raw(taken)), chunk)
            self.assertEqual(taken.slab.size, max(chunk, SLAB))
        self.assertTrue(all(size == real for size, real in self.announced))

    def test_chunks_of_a_slab_are_apart(self):
        chunks = [self.heap.take(SMALL) for _ in range(SLAB // SMALL)]
        self.assertEqual(len(self.announced), 1)
        for k, chunk in enumerate(chunks):
            raw(chunk)[:] = bytes([k % 251]) * SMALL
        for k, chunk in enumerate(chunks):
            self.assertEqual(bytes(raw(chunk)), bytes([k % 251]) * SMALL)
        self.heap.take(SMALL)
        self.assertEqual(len(self.announced), 2)

    def test_free_after_both_holders(self):
        chunk = self.heap.take(SLAB)
        key = chunk.slab.ident, chunk.number
        self.heap.sent(chunk)
        view = raw(chunk)[5:]
        del chunk
        self.heap.put(key)  # the parent's; the view is left
        self.assertNotEqual(self.heap.take(SLAB).slab.ident, key[0])
        del view
        self.assertIn(key[0], [self.heap.take(SLAB).slab.ident for _ in range(2)])

    def test_open_chunks_are_found_by_address(self):
        chunk = self.heap.take(SLAB)
        address = chunk.slab.address
        self.assertIs(self.heap.opened(address), chunk)
        self.assertIsNone(self.heap.opened(address + 64))
        self.heap.sent(chunk)
        self.assertIsNone(self.heap.opened(address))

    def test_idle_slabs_are_dropped_and_used_ones_are_not(self):
        kept = self.heap.take(SLAB)
        self.heap.take(2 * SLAB)
        dropped = [ident for _ in range(2 * shm_slabs.IDLE) for ident in self.heap.next_batch()]
        self.assertEqual(dropped, [2])
        self.assertEqual(len(self.heap), 1)
        raw(kept)[0] = 1

    def test_a_dropped_slab_stays_while_it_is_seen(self):
        chunk = self.heap.take(SLAB)
        view = raw(chunk)
        self.heap.sent(chunk)
        key = chunk.slab.ident, chunk.number
        self.heap.drop(key[0])
        del chunk
        gc.collect()
        view[7] = 9
        self.heap.put(key)
        self.assertEqual(self.heap.next_batch(), [key[0]])
        self.assertEqual(view[7], 9)
        self.assertEqual(self.heap.take(SLAB).slab.ident, key[0] + 1)

    def test_none_where_the_system_gives_none(self):
        for what, soft in ((resource.RLIMIT_FSIZE, 4096), (resource.RLIMIT_NOFILE, 0)):
            old = resource.getrlimit(what)
            resource.setrlimit(what, (soft, old[1]))
            try:
                self.assertIsNone(self.heap.take(SLAB))
            finally:
                resource.setrlimit(what, old)
        self.assertIsNotNone(self.heap.take(SLAB))

    def test_forks_are_counted(self):
        before = shm_slabs.forks()
        pid = os.fork()
        if pid == 0:
            os._exit(0)
        os.waitpid(pid, 0)
        self.assertEqual(shm_slabs.forks(), before + 1)


if __name__ == "__main__":
    unittest.main()
