# SPDX-License-Identifier: Apache-2.0
"""dlcache.order: the numbers of an order."""
import unittest

import dlcache


def numbers(n, **how):
    return list(dlcache.order_list(n, **how))


class OrderList(unittest.TestCase):
    def test_is_a_buffer_of_uint64(self):
        order = dlcache.order_list(1000, seed=1, epoch=2)
        self.assertEqual((order.format, order.itemsize, len(order)), ("Q", 8, 1000))
        self.assertEqual(sorted(order), list(range(1000)))

    def test_depends_on_seed_and_epoch_only(self):
        self.assertEqual(numbers(500, seed=7, epoch=3), numbers(500, seed=7, epoch=3))
        self.assertNotEqual(numbers(500, seed=7, epoch=3), numbers(500, seed=8, epoch=3))
        self.assertNotEqual(numbers(500, seed=7, epoch=3), numbers(500, seed=7, epoch=4))

    def test_seeds_of_any_size(self):
        self.assertEqual(numbers(500, seed=-1), numbers(500, seed=2**64 - 1))
        self.assertEqual(numbers(500, seed=2**64 + 5), numbers(500, seed=5))

    def test_without_shuffle(self):
        self.assertEqual(numbers(5, shuffle=False), [0, 1, 2, 3, 4])
        self.assertEqual(numbers(5, shuffle=False, first=10), [10, 11, 12, 13, 14])

    def test_a_part(self):
        whole = numbers(1000, seed=4)
        self.assertEqual(numbers(1000, seed=4, start=200, stop=210), whole[200:210])
        self.assertEqual(numbers(1000, seed=4, start=990, stop=5000), whole[990:])
        self.assertEqual(numbers(1000, seed=4, start=5000), [])

    def test_ranks_take_turns_in_one_order(self):
        whole = numbers(10, seed=4)
        self.assertEqual(numbers(10, seed=4, rank=1, world=2), whole[1::2])
        padded = whole + whole[:2]
        self.assertEqual(numbers(10, seed=4, rank=2, world=3), padded[2::3])
        self.assertEqual(numbers(10, seed=4, rank=2, world=3, drop_last=True), whole[2:9:3])

    def test_refusals_name_the_argument(self):
        with self.assertRaisesRegex(ValueError, "epoch is -1"):
            dlcache.order_list(10, seed=0, epoch=-1)
        with self.assertRaisesRegex(ValueError, "rank"):
            dlcache.order_list(10, seed=0, epoch=0, rank=2, world=2)
        with self.assertRaises(TypeError):
            dlcache.order_list("10", seed=0, epoch=0)
        with self.assertRaises(ValueError):
            dlcache.order_list(0, seed=0, epoch=0)


if __name__ == "__main__":
    unittest.main()
