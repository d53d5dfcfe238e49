# SPDX-License-Identifier: Apache-2.0
import copy
import itertools
import json
import random
import unittest
import warnings

import numpy
import torch
from torch.utils.data import (BatchSampler, DistributedSampler, RandomSampler, Sampler,
                              SequentialSampler, SubsetRandomSampler, WeightedRandomSampler)

from dlcache.torch.order.batch_plans import StreamPlan, mix
from dlcache.torch.order.epoch_state import EpochState
from dlcache.torch.order.samplers import Shuffle


def taken(plan, n=None):
    """Hands out the next n batches of a plan, or all that are left."""
    found = []
    while plan.has(plan.handed) and (n is None or len(found) < n):
        found.append((plan.batch(plan.handed), plan.seed(plan.handed)))
        plan.hand(plan.handed)
    return found


def indices(plan):
    return [i for batch, _ in taken(plan) for i in batch]


def generator(seed):
    return torch.Generator().manual_seed(seed)


class Hoarder:
    """Shuffles a list of its own in place, and counts; no Sampler, no set_epoch."""

    def __init__(self, n):
        self.order, self.times = list(range(n)), 0

    def __iter__(self):
        random.shuffle(self.order)
        self.times += 1
        return iter(list(self.order))

    def __len__(self):
        return len(self.order)


class ByNumpy(Sampler):
    def __init__(self, n):
        self.rng, self.n = numpy.random.default_rng(3), n

    def __iter__(self):
        return iter(self.rng.permutation(self.n))

    def __len__(self):
        return self.n


class Secret(Sampler):
    """Holds what we cannot look into."""

    def __init__(self, n):
        self.n, self.turns = n, itertools.count()

    def __iter__(self):
        return iter([(i + next(self.turns)) % self.n for i in range(self.n)])

    def __len__(self):
        return self.n


class Endless(Sampler):
    """Says a length, and never ends, as some do."""

    def __init__(self, n):
        self.n = n

    def __iter__(self):
        while True:
            yield from torch.randperm(self.n).tolist()

    def __len__(self):
        return self.n


SAMPLERS = {
    "sequential": lambda: SequentialSampler(range(23)),
    "random": lambda: RandomSampler(range(23)),
    "random, generator": lambda: RandomSampler(range(23), generator=generator(5)),
    "subset": lambda: SubsetRandomSampler(list(range(5, 28)), generator=generator(5)),
    "weighted": lambda: WeightedRandomSampler(torch.rand(30, generator=generator(1)), 23,
                                              generator=generator(5)),
    "distributed": lambda: DistributedSampler(range(46), 2, 1),
    "list": lambda: list(range(22, -1, -1)),
    "hoarder": lambda: Hoarder(23),
    "numpy": lambda: ByNumpy(23),
    "secret": lambda: Secret(23),
    "shuffle": lambda: Shuffle(46, rank=1, world=2, seed=4),
}


def epochs_of(name, size=4, drop_last=False, seed=9, **more):
    sampler = SAMPLERS[name]()
    batches = BatchSampler(sampler, size, drop_last) if size else None
    return sampler, EpochState(sampler, batches, generator=generator(seed), **more)


class Plans(unittest.TestCase):
    def test_batches_are_those_of_torch(self):
        for size, drop_last in ((4, False), (4, True), (23, False), (30, False), (30, True)):
            for name in ("sequential", "random, generator", "subset", "weighted", "distributed"):
                with self.subTest(name=name, size=size, drop_last=drop_last):
                    _, epochs = epochs_of(name, size, drop_last)
                    plan = epochs.begin()
                    theirs = list(BatchSampler(SAMPLERS[name](), size, drop_last))
                    self.assertEqual([b for b, _ in taken(plan)], theirs)
                    self.assertEqual(plan.count(), len(theirs))

    def test_without_batches_items_come_as_they_are(self):
        said = ["a", (1, 2), 3, None]
        plan = EpochState(said).begin()
        self.assertEqual([b for b, _ in taken(plan)], said)
        plan = EpochState(Shuffle(9, seed=2)).begin()
        self.assertEqual([b for b, _ in taken(plan)], list(Shuffle(9, seed=2)))

    def test_batch_samplers_of_any_kind(self):
        for said in ([[1, 2], [3], []], [[1], (2, 3), [4]], [["a", "b"], ["c"]], [torch.arange(3)]):
            plan = EpochState(None, said).begin()
            got = [b for b, _ in taken(plan)]
            self.assertEqual(len(got), len(said))
            for a, b in zip(got, said):
                self.assertIs(type(a), type(b))
                self.assertTrue((torch.as_tensor(a) == b).all() if torch.is_tensor(b) else a == b)

    def test_numbers_keep_their_type(self):
        for said in ([numpy.int64(1), numpy.int64(2)], [numpy.uint8(7)], [1, numpy.int64(2)],
                     [torch.tensor(1)], [2**70, 1], [True, False]):
            got = [b for b, _ in taken(EpochState(said).begin())]
            self.assertEqual(list(map(type, got)), list(map(type, said)))
            self.assertEqual(got, said)

    def test_a_sampler_without_end(self):
        for size in (4, None):
            epochs = EpochState(Endless(10), BatchSampler(Endless(10), 4, False) if size else None,
                                generator=generator(1))
            plan = epochs.begin()
            self.assertIsInstance(plan, StreamPlan)
            found = taken(plan, 25)
            flat = [i for b, _ in found for i in b] if size else [b for b, _ in found]
            self.assertEqual(sorted(flat[:10]), list(range(10)))
            self.assertIsNone(epochs.ahead())

    def test_an_iterator_ends_as_in_torch(self):
        epochs = EpochState(iter([3, 1, 2]))
        self.assertEqual([b for b, _ in taken(epochs.begin())], [3, 1, 2])
        self.assertIsNone(epochs.ahead())
        self.assertEqual(taken(epochs.begin()), [])

    def test_seeds_differ_and_repeat(self):
        seeds = [s for e in range(3) for _, s in taken(epochs_of("sequential")[1].begin())]
        self.assertEqual(seeds[:6], seeds[6:12])
        self.assertEqual(len(set(seeds)), 6)
        self.assertEqual(len({mix(a, b) for a in range(100) for b in range(100)}), 10_000)


class Ahead(unittest.TestCase):
    def test_changes_nothing(self):
        for name in SAMPLERS:
            with self.subTest(name=name):
                _, plain = epochs_of(name)
                _, looking = epochs_of(name)
                for _ in range(4):
                    expected = taken(plain.begin())
                    plan = looking.begin()
                    first = taken(plan, 2)
                    looking.ahead()
                    self.assertEqual(first + taken(plan), expected)

    def test_is_used(self):
        for name in set(SAMPLERS) - {"secret", "distributed"}:
            with self.subTest(name=name):
                _, epochs = epochs_of(name)
                epochs.begin()
                ahead = epochs.ahead()
                self.assertIsNotNone(ahead)
                self.assertIs(epochs.ahead(), ahead)
                self.assertIs(epochs.begin(), ahead)
        self.assertIsNone(epochs_of("secret")[1].ahead())

    def test_random_numbers_of_the_user_are_not_touched(self):
        _, epochs = epochs_of("random")
        before = torch.get_rng_state(), random.getstate()
        epochs.begin()
        epochs.ahead()
        epochs.begin()
        self.assertTrue(torch.equal(before[0], torch.get_rng_state()))
        self.assertEqual(before[1], random.getstate())

    def test_set_epoch_is_predicted(self):
        for name in ("distributed", "shuffle"):
            for step in (1, 2, 0):
                with self.subTest(name=name, step=step):
                    sampler, epochs = epochs_of(name)
                    used = []
                    for e in range(4):
                        sampler.set_epoch(e * step)
                        ahead = epochs._ahead
                        plan = epochs.begin()
                        used.append(plan is ahead)
                        fresh = SAMPLERS[name]()
                        fresh.set_epoch(e * step)
                        self.assertEqual(indices(plan), list(fresh))
                        epochs.ahead()
                        self.assertEqual(sampler.epoch, e * step)
                    self.assertEqual(used, [False, step == 1, True, True])

    def test_a_sampler_that_was_changed_is_drained_anew(self):
        changes = {
            "weighted": lambda s: s.weights.mul_(torch.arange(30)),
            "hoarder": lambda s: s.order.reverse(),
            "random, generator": lambda s: s.generator.manual_seed(77),
            "numpy": lambda s: s.rng.random(),
            "subset": lambda s: s.indices.pop(),
            "list": lambda s: s.append(99),
            "shuffle": lambda s: s.set_epoch(11),
        }
        for name, change in changes.items():
            with self.subTest(name=name):
                sampler, epochs = epochs_of(name)
                other, plain = epochs_of(name)
                epochs.begin()
                plain.begin()
                ahead = epochs.ahead()
                change(sampler)
                change(other)
                plan = epochs.begin()
                self.assertIsNot(plan, ahead)
                self.assertEqual(taken(plan), taken(plain.begin()))

    def test_an_error_comes_when_the_iteration_begins(self):
        class Twice(Hoarder):
            def __iter__(self):
                self.times += 1
                if self.times > 1:
                    raise KeyError("no more")
                return iter(self.order)

        sampler = Twice(5)
        epochs = EpochState(sampler, BatchSampler(sampler, 2, False))
        epochs.begin()
        self.assertIsNone(epochs.ahead())
        self.assertEqual(sampler.times, 1)
        with self.assertRaises(KeyError):
            epochs.begin()

    def test_not_after_the_last_epoch(self):
        _, epochs = epochs_of("shuffle", epochs=2)
        epochs.begin()
        self.assertIsNotNone(epochs.ahead())
        epochs.begin()
        self.assertIsNone(epochs.ahead())


class Learner(Sampler):
    """Learns while its epoch is read, and cannot be seen through."""

    dlcache_late = True

    def __init__(self, n):
        self.n, self.epoch, self.secret, self.asked = n, 0, object(), 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __iter__(self):
        self.asked += 1
        return iter([(i + self.asked) % self.n for i in range(self.n)])

    def __len__(self):
        return self.n


class Late(unittest.TestCase):
    def test_is_asked_once_for_each_epoch(self):
        sampler = Learner(30)
        epochs = EpochState(sampler, BatchSampler(sampler, 4, False))
        for epoch in range(3):
            plan = epochs.begin()
            self.assertEqual(sampler.epoch, epoch)
            ahead = epochs.ahead()
            sampler.secret = object()  # what it learnt since
            self.assertEqual(indices(plan), [(i + epoch + 1) % 30 for i in range(30)])
            self.assertEqual(sampler.asked, epoch + 2)
            if epoch % 2:
                sampler.set_epoch(epoch + 1)
        self.assertIs(epochs.begin(), ahead)

    def test_another_epoch_is_asked_for_anew(self):
        sampler = Learner(30)
        epochs = EpochState(sampler, BatchSampler(sampler, 4, False))
        epochs.begin()
        ahead = epochs.ahead()
        sampler.set_epoch(7)
        plan = epochs.begin()
        self.assertIsNot(plan, ahead)
        self.assertEqual(indices(plan), [(i + 3) % 30 for i in range(30)])

    def test_when(self):
        for n, first in ((30, 0), (256, 0), (4096, 3840), (200_000, 196_000)):
            with self.subTest(n=n):
                sampler = Learner(n)
                epochs = EpochState(sampler)
                plan = epochs.begin()
                self.assertTrue(epochs.due(plan, first))
                self.assertTrue(first == 0 or not epochs.due(plan, first - 1))
                self.assertTrue(epochs.due(plan, n))
                sampler.dlcache_late = False
                self.assertTrue(epochs.due(plan, -(-n // 2)))
                self.assertFalse(epochs.due(plan, n // 2 - 1))

    def test_an_error_leaves_it_as_it_was(self):
        class Fails(Learner):
            def __iter__(self):
                found = super().__iter__()
                if self.asked > 1:
                    raise KeyError("no more")
                return found

        sampler = Fails(5)
        epochs = EpochState(sampler)
        epochs.begin()
        self.assertIsNone(epochs.ahead())
        self.assertEqual((sampler.asked, sampler.epoch), (1, 0))
        with self.assertRaises(KeyError):
            epochs.begin()


class States(unittest.TestCase):
    RESUMABLE = sorted(set(SAMPLERS) - {"hoarder", "secret"})

    def test_exact_at_every_position(self):
        for name in self.RESUMABLE:
            for size in (4, None):
                _, epochs = epochs_of(name, size)
                whole = []
                for _ in range(2):
                    plan = epochs.begin()
                    whole += taken(plan)
                    plan.finished = True
                for at in range(len(whole) + 1):
                    with self.subTest(name=name, size=size, at=at):
                        _, epochs = epochs_of(name, size)
                        self.run_to(epochs, at, whole[:at])
                        state = json.loads(json.dumps(epochs.state_dict()))
                        _, resumed = epochs_of(name, size, seed=1000)
                        resumed.load_state_dict(state)
                        self.assertEqual(resumed.state_dict(), state)
                        rest = []
                        while len(rest) < len(whole) - at:
                            plan = resumed.begin()
                            rest += taken(plan)
                            plan.finished = True
                            resumed.ahead()
                        self.assertEqual(rest, whole[at:])

    def run_to(self, epochs, at, expected):
        got = []
        while len(got) < at:
            plan = epochs.begin()
            got += taken(plan, at - len(got))
            epochs.ahead()
            if plan.handed == plan.count() and at > len(got):
                plan.finished = True
        self.assertEqual(got, expected)

    def test_out_of_sequence(self):
        _, epochs = epochs_of("random")
        plan = epochs.begin()
        expected = [plan.batch(b) for b in (1, 4, 5)]
        for b in (0, 3, 2):
            plan.hand(b)
        _, resumed = epochs_of("random")
        resumed.load_state_dict(epochs.state_dict())
        plan = resumed.begin()
        self.assertEqual((plan.handed, plan.out), (1, {2, 3}))
        self.assertEqual([plan.batch(b) for b in (1, 4, 5)], expected)

    def test_what_cannot_be_resumed(self):
        _, epochs = epochs_of("hoarder")
        taken(epochs.begin(), 2)
        _, resumed = epochs_of("hoarder")
        resumed._sampler.order.reverse()
        resumed.load_state_dict(epochs.state_dict())
        with self.assertRaisesRegex(RuntimeError, "Hoarder does not say what it said"):
            resumed.begin()
        _, other = epochs_of("shuffle")
        with self.assertRaisesRegex(ValueError, "of kind 'other', this one has 'shuffle'"):
            other.load_state_dict(epochs.state_dict())
        with self.assertRaisesRegex(ValueError, "version 7"):
            other.load_state_dict({"version": 7})
        state = epochs.state_dict()
        state["world"] = 2
        with self.assertRaisesRegex(ValueError, "made on 2 ranks and this is one of 1"):
            resumed.load_state_dict(state)

    def test_the_user_sets_another_epoch(self):
        for name in ("distributed", "shuffle"):
            sampler, epochs = epochs_of(name)
            sampler.set_epoch(3)
            taken(epochs.begin(), 2)
            sampler, resumed = epochs_of(name)
            resumed.load_state_dict(epochs.state_dict())
            sampler.set_epoch(5)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                plan = resumed.begin()
            self.assertEqual(len(caught), 1)
            fresh = SAMPLERS[name]()
            fresh.set_epoch(5)
            self.assertEqual(indices(plan), list(fresh))

    def test_own_state_of_a_sampler(self):
        class Stateful(Sampler):
            def __init__(self):
                self.at = 0

            def __iter__(self):
                self.at += 10
                return iter(range(self.at, self.at + 10))

            def __len__(self):
                return 10

            def state_dict(self):
                return {"at": self.at}

            def load_state_dict(self, state):
                self.at = state["at"]

        sampler = Stateful()
        epochs = EpochState(sampler, BatchSampler(sampler, 2, False))
        epochs.begin().finished = True
        plan = epochs.begin()
        taken(plan, 2)
        epochs.ahead()
        sampler = Stateful()
        resumed = EpochState(sampler, BatchSampler(sampler, 2, False))
        resumed.load_state_dict(epochs.state_dict())
        self.assertEqual([b for b, _ in taken(resumed.begin())], [b for b, _ in taken(plan)])


class Elastic(unittest.TestCase):
    def ranks(self, kind, n, world, size, **how):
        made = []
        for r in range(world):
            sampler = (Shuffle(n, rank=r, world=world, seed=3, **how) if kind == "shuffle"
                       else DistributedSampler(range(n), world, r, seed=3, **how))
            made.append(EpochState(sampler, BatchSampler(sampler, size, False), generator=generator(r)))
        return made

    def turns(self, plans, n=None):
        """The samples that all ranks take in n batches each, in the global sequence."""
        found = []
        for batches in zip(*(taken(p, n) for p in plans)):
            found += [i for turn in zip(*(b for b, _ in batches)) for i in turn]
        return found

    def test_any_number_of_ranks_goes_on_at_every_position(self):
        n, size = 37, 2
        for kind, then, now in itertools.product(("shuffle", "distributed"), (1, 2, 3), (1, 2, 3)):
            whole = self.turns([e.begin() for e in self.ranks(kind, n, 1, size)])
            for batches in range(-(-n // then // size) + 1):
                with self.subTest(kind=kind, then=then, now=now, batches=batches):
                    before = self.ranks(kind, n, then, size)
                    head = self.turns([e.begin() for e in before], batches)
                    state = json.loads(json.dumps(before[0].state_dict()))
                    after = self.ranks(kind, n, now, size)
                    for e in after:
                        e.load_state_dict(copy.deepcopy(state))
                    got = head + self.turns([e.begin() for e in after])
                    self.assertEqual(got[:n], whole)
                    self.assertLess(len(got) - n, max(then, now))

    def test_changed_twice_in_one_epoch(self):
        for kind in ("shuffle", "distributed"):
            whole = self.turns([e.begin() for e in self.ranks(kind, 50, 1, 2)])
            got, state = [], None
            for world in (3, 2, 5, 5, 1):
                ranks = self.ranks(kind, 50, world, 2)
                for e in ranks:
                    if state is not None:
                        e.load_state_dict(state)
                got += self.turns([e.begin() for e in ranks], None if world == 1 else 2)
                state = ranks[0].state_dict()
            self.assertEqual(got, whole)

    def test_the_next_epoch_is_whole(self):
        for kind in ("shuffle", "distributed"):
            before = self.ranks(kind, 20, 2, 2)
            self.turns([e.begin() for e in before], 2)
            after = self.ranks(kind, 20, 3, 2)
            for e in after:
                e.load_state_dict(before[0].state_dict())
                taken(e.begin())
                ahead = e.ahead()
                if kind == "distributed":
                    e._sampler.set_epoch(1)
                self.assertIs(e.begin(), ahead)
            fresh = self.ranks(kind, 20, 3, 2)
            for e in fresh:
                e._sampler.set_epoch(1)
            self.assertEqual(self.turns([e._current for e in after]),
                             self.turns([e.begin() for e in fresh]))

    def test_other_samplers_need_the_same_number(self):
        before = self.ranks("distributed", 20, 2, 2)[0]
        taken(before.begin(), 2)
        state = before.state_dict()
        state["out"] = [3]
        with self.assertRaisesRegex(ValueError, "relaxed order"):
            self.ranks("distributed", 20, 3, 2)[0].load_state_dict(state)
        state["out"], state["sampler"]["n"] = [], 21
        with self.assertRaisesRegex(ValueError, "of 21 samples, and here are 20"):
            self.ranks("distributed", 20, 2, 2)[0].load_state_dict(state)


if __name__ == "__main__":
    unittest.main()
