# SPDX-License-Identifier: Apache-2.0
import unittest

import torch
from torch.utils.data import DistributedSampler, RandomSampler, SequentialSampler

import dlcache
from dlcache.torch.order.samplers import Shuffle, ShuffleRandomSampler, ShuffleSequentialSampler


def dealt(n, world, start, **how):
    """What all ranks together give, in the sequence of the global order."""
    ranks = [Shuffle(n, rank=r, world=world, **how) for r in range(world)]
    for shuffle in ranks:
        shuffle.load_state_dict(dict(shuffle.state_dict(), start=start))
    return [x for turn in zip(*ranks) for x in turn]


class Orders(unittest.TestCase):
    def test_is_what_the_daemon_computes(self):
        for epoch in range(3):
            s = Shuffle(1000, seed=5, rank=1, world=3)
            s.set_epoch(epoch)
            self.assertEqual(list(s), list(dlcache.order_list(1000, seed=5, epoch=epoch, rank=1,
                                                              world=3)))

    def test_deals_as_distributed_sampler_does(self):
        for n in (0, 1, 2, 5, 10, 17):
            for world in (1, 2, 3, 7):
                for drop_last in (False, True):
                    for rank in range(world):
                        with self.subTest(n=n, world=world, drop_last=drop_last, rank=rank):
                            theirs = DistributedSampler(range(n), world, rank, shuffle=False,
                                                        drop_last=drop_last)
                            ours = Shuffle(n, shuffle=False, rank=rank, world=world,
                                           drop_last=drop_last)
                            if n or not drop_last:
                                self.assertEqual(len(ours), len(theirs))
                            if n >= world or n and not drop_last:
                                self.assertEqual(list(ours), list(theirs))

    def test_each_once_in_every_epoch(self):
        s = Shuffle(range(40_000))  # more than is computed at a time
        epochs = [list(s), list(s)]
        for epoch in epochs:
            self.assertEqual(sorted(epoch), list(range(40_000)))
        self.assertNotEqual(epochs[0], epochs[1])

    def test_length_is_asked_anew(self):
        data = [1, 2, 3]
        s = Shuffle(data)
        list(s)
        data.append(4)
        self.assertEqual(sorted(s), [0, 1, 2, 3])


class EpochState(unittest.TestCase):
    def test_counts_by_itself_until_it_is_set(self):
        s = Shuffle(100)
        first, second = list(s), list(s)
        self.assertNotEqual(first, second)
        s.set_epoch(1)
        self.assertEqual([list(s), list(s)], [second, second])

    def test_the_epoch_is_taken_when_iteration_begins(self):
        s = Shuffle(100)
        begun = iter(s)
        s.set_epoch(7)
        self.assertEqual(list(begun), list(Shuffle(100)))

    def test_seed_is_drawn_at_first_use_from_the_generator(self):
        def order(seed):
            g = torch.Generator()
            s = Shuffle(50, seed=None, generator=g)
            g.manual_seed(seed)
            return list(s)

        self.assertEqual(order(1), order(1))
        self.assertNotEqual(order(1), order(2))

    def test_refuses_what_cannot_be(self):
        for wrong in ({"rank": 2, "world": 2}, {"rank": -1, "world": 2}, {"world": 0, "rank": 0}):
            with self.assertRaisesRegex(ValueError, "ranks count from 0"):
                Shuffle(10, **wrong)
        with self.assertRaisesRegex(ValueError, "epochs count from 0"):
            Shuffle(10).set_epoch(-1)
        with self.assertRaisesRegex(ValueError, "from 0 on"):
            Shuffle(-1)


class InPlaceOfTorchs(unittest.TestCase):
    def test_are_seen_to_be_torchs(self):
        data = range(20)
        random, sequential = ShuffleRandomSampler(data, None), ShuffleSequentialSampler(data, None)
        self.assertIsInstance(random, RandomSampler)
        self.assertIsInstance(sequential, SequentialSampler)
        theirs = RandomSampler(data)
        for name in ("data_source", "replacement", "num_samples", "generator"):
            self.assertEqual(getattr(random, name), getattr(theirs, name), name)
        self.assertEqual(vars(theirs).keys() - vars(random).keys(), set())
        self.assertIs(sequential.data_source, data)

    def test_give_what_shuffle_gives(self):
        one, two = (torch.Generator().manual_seed(3) for _ in range(2))
        random = ShuffleRandomSampler(range(20), one)
        same = Shuffle(20, seed=None, generator=two)
        for _ in range(2):
            self.assertEqual(list(random), list(same))
        self.assertEqual(list(ShuffleSequentialSampler(range(5), None)), [0, 1, 2, 3, 4])


class Elastic(unittest.TestCase):
    def test_another_number_of_ranks_goes_on_in_the_same_global_order(self):
        for n in (7, 12, 30):
            whole = dealt(n, 1, 0)
            for world in (1, 2, 3, 5):
                for start in range(n + 3):
                    with self.subTest(n=n, world=world, start=start):
                        got, left = dealt(n, world, start), whole[start:]
                        self.assertEqual(got[:len(left)], left)
                        self.assertLess(len(got) - len(left), world)
                        kept = dealt(n, world, start, drop_last=True)
                        self.assertEqual(kept, left[:len(left) - len(left) % world])

    def test_the_same_number_gives_what_would_have_come(self):
        for n, world in ((7, 2), (11, 3), (2, 5)):
            whole = dealt(n, world, 0)
            for turn in range(len(whole) // world + 1):
                self.assertEqual(dealt(n, world, turn * world), whole[turn * world:])

    def test_only_the_resumed_epoch_is_short(self):
        s = Shuffle(10)
        s.load_state_dict({"n": 10, "seed": 3, "epoch": 2, "start": 4})
        self.assertEqual([len(list(s)), len(list(s)), s.epoch], [6, 10, 4])

    def test_other_data_is_refused(self):
        with self.assertRaisesRegex(ValueError, "of 9 samples, and here are 10"):
            Shuffle(10).load_state_dict(Shuffle(9).state_dict())


if __name__ == "__main__":
    unittest.main()
