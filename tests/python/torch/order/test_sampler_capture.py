# SPDX-License-Identifier: Apache-2.0
import collections
import random
import unittest

import numpy
import torch
from torch.utils.data import BatchSampler, RandomSampler, Sampler, SequentialSampler

from dlcache.torch.order.sampler_capture import (PackedIndices, SamplerState, SeededRandom, pack,
                                                 pack_lists)


class Packing(unittest.TestCase):
    def test_integers_are_packed(self):
        for items in ([], [1, 2, 3], list(range(40_000)), [-1, 2**63 - 1],
                      [numpy.int32(5)] * 3):
            packed = pack(iter(items))
            self.assertIsInstance(packed, PackedIndices)
            self.assertEqual(list(packed), items)
            self.assertEqual(packed[1:3], items[1:3])
            self.assertEqual(list(map(type, packed[:2])), list(map(type, items[:2])))
        self.assertEqual(packed.array.dtype, numpy.int32)

    def test_anything_else_is_kept(self):
        for items in (["a"], [1, "a"], [1] * 20_000 + [2.5], [True], [2**63], [1, numpy.int64(1)],
                      [(1, 2)], [None]):
            packed = pack(items)
            self.assertIs(type(packed), list)
            self.assertEqual(packed, items)
            self.assertEqual(list(map(type, packed)), list(map(type, items)))

    def test_batches(self):
        items, ends = pack_lists(iter([[1, 2], [], [3]]))
        self.assertEqual((list(items), ends), ([1, 2, 3], [0, 2, 2, 3]))
        for batches in ([(1, 2), [3]], [[1, 2], (3,), [4]], [5, 6]):
            self.assertEqual(pack_lists(batches), (batches, None))

    def test_checksums_tell_lists_apart(self):
        self.assertEqual(pack([1, 2, 3]).crc(), pack([1, 2, 3]).crc())
        self.assertNotEqual(pack([1, 2, 3]).crc(), pack([1, 3, 2]).crc())


def draw():
    return torch.rand(()).item(), random.random(), numpy.random.random()


class Random(unittest.TestCase):
    def test_comes_from_the_seed_and_goes_on(self):
        with SeededRandom(5):
            want = [draw(), draw()]
        randomness = SeededRandom(5)
        got = []
        for _ in range(2):
            draw()
            with randomness:
                got.append(draw())
        self.assertEqual(got, want)

    def test_outside_nothing_is_noticed(self):
        torch.manual_seed(1)
        random.seed(1)
        numpy.random.seed(1)
        want = [draw(), draw()]
        torch.manual_seed(1)
        random.seed(1)
        numpy.random.seed(1)
        got = [draw()]
        with self.assertRaises(KeyError), SeededRandom(7):
            draw()
            raise KeyError
        self.assertEqual(got + [draw()], want)


class All(Sampler):
    """One of everything that can change."""

    def __init__(self):
        self.number, self.text = 1, "a"
        self.list, self.deep = [1, 2, 3], {"a": [[1], {2}], "b": (4, [5])}
        self.queue = collections.deque([1, 2], maxlen=5)
        self.tensor, self.array = torch.arange(5.0), numpy.arange(5)
        self.fixed = numpy.arange(3)
        self.fixed.flags.writeable = False
        self.generators = [torch.Generator(), random.Random(1), numpy.random.default_rng(1),
                           numpy.random.RandomState(1)]
        self.sampler = RandomSampler(range(5), generator=torch.Generator())
        self.data_source = object()

    def __iter__(self):
        return iter(())


CHANGES = {
    "an attribute": lambda a: setattr(a, "number", 2),
    "another type": lambda a: setattr(a, "number", 1.0),
    "a new attribute": lambda a: setattr(a, "more", 2),
    "one less": lambda a: delattr(a, "text"),
    "a list": lambda a: a.list.reverse(),
    "another list": lambda a: setattr(a, "list", [1, 2, 3]),
    "a list in a dict": lambda a: a.deep["a"][0].append(1),
    "a set in a list": lambda a: a.deep["a"][1].add(1),
    "a list in a tuple": lambda a: a.deep["b"][1].clear(),
    "a queue": lambda a: a.queue.append(3),
    "a tensor": lambda a: a.tensor.add_(1),
    "an array": lambda a: a.array.fill(1),
    "torch's generator": lambda a: torch.rand(1, generator=a.generators[0]),
    "random's generator": lambda a: a.generators[1].random(),
    "numpy's generator": lambda a: a.generators[2].random(),
    "numpy's old generator": lambda a: a.generators[3].rand(),
    "a sampler inside": lambda a: torch.rand(1, generator=a.sampler.generator),
}


class Snapshots(unittest.TestCase):
    def test_every_change_is_seen_and_undone(self):
        for what, change in CHANGES.items():
            with self.subTest(what):
                sampler = All()
                before = SamplerState(sampler)
                self.assertEqual(before, SamplerState(sampler))
                change(sampler)
                after = SamplerState(sampler)
                self.assertNotEqual(before, after)
                before.restore()
                self.assertEqual(before, SamplerState(sampler))
                after.restore()
                self.assertEqual(after, SamplerState(sampler))

    def test_what_can_be_seen_into(self):
        class Odd(All):
            def __init__(self, thing):
                super().__init__()
                self.thing = thing

        self.assertEqual([(s.hidden, s.moving) for s in map(SamplerState, (
            All(), Odd(object()), Odd(iter([1])), Odd(numpy.array([object()])), iter([1, 2]),
            [1, 2], BatchSampler(SequentialSampler([1]), 2, False)))],
            [(False, False), (True, False), (False, True), (True, False), (False, True),
             (False, False), (False, False)])

    def test_the_dataset_is_no_part_of_it(self):
        data = [1, 2, 3]
        sampler = All()
        sampler.things = data
        before = SamplerState(sampler, data)
        data.append(4)
        self.assertEqual(before, SamplerState(sampler, data))

    def test_generators_travel_as_plain_python(self):
        sampler, other = All(), All()
        for what in ("torch's", "random's", "numpy's", "numpy's old"):
            CHANGES[what + " generator"](sampler)
        states = SamplerState(sampler).generators()
        self.assertEqual(len(states), 5)
        self.assertTrue(SamplerState(other).set_generators(states))
        self.assertEqual(SamplerState(other).generators(), states)
        self.assertFalse(SamplerState(other).set_generators(states[1:]))


if __name__ == "__main__":
    unittest.main()
