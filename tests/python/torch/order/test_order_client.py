# SPDX-License-Identifier: Apache-2.0
"""What the order client announces, recorded by a fake daemon."""
import itertools
import unittest
import unittest.mock
import warnings

import dlcache
from dlcache.torch.order import order_client
from torch.utils.data import BatchSampler, Sampler

from dlcache.torch.order.epoch_state import EpochState
from dlcache.torch.order.order_client import OrderClient
from dlcache.torch.order.samplers import Shuffle

N = 40


class Handle:
    """Keeps what it is told. `broken`: nobody answers."""

    url, options = "s3://bucket/", {"refresh": True, "spawn": False}

    def __init__(self):
        self.told, self.broken = [], False

    def __len__(self):
        return N

    def again(self):
        return dict(self.options, refresh=False, snapshot="0123456789abcdef")

    def _say(self, *what):
        if self.broken:
            raise dlcache.NoDaemonError(-11, "no daemon")
        self.told.append(what)

    def follow(self, kind="shuffled", *, targets=False, **how):
        self._say("follow", kind if isinstance(kind, str) else list(kind), how)

    def follow_more(self, numbers, *, targets=False):
        self._say("more", list(numbers))

    def advance(self, epoch, position, ahead, waited_s):
        self._say("advance", epoch, position, ahead, waited_s)

    def close(self):
        self._say("close")

    def take(self):
        told, self.told = self.told, []
        return told


class Backwards(Sampler):
    def __init__(self, n=N):
        self.n = n

    def __iter__(self):
        return iter(range(self.n - 1, -1, -1))

    def __len__(self):
        return self.n


class Forever:
    def __iter__(self):
        return itertools.cycle(range(N))


class Telling(unittest.TestCase):
    def setUp(self):
        self.handle, self.opened = Handle(), []

        def open(url, **options):
            self.opened.append((url, options))
            return self.handle

        patch = unittest.mock.patch.object(dlcache, "open", open)
        patch.start()
        self.addCleanup(patch.stop)

    def begin(self, sampler, mapping=None, size=10, **how):
        epochs = EpochState(sampler, BatchSampler(sampler, size, False))
        client = OrderClient((self.handle, mapping), **how)
        plan = epochs.begin()
        client.begin(plan)
        return epochs, client, plan

    def next_epoch(self, epochs, client):
        client.look_ahead(epochs.ahead())
        plan = epochs.begin()
        client.begin(plan)
        return plan

    def test_a_shuffle_is_told_once(self):
        for mapping, first in ((None, 0), (range(5, 5 + N), 5)):
            epochs, client, plan = self.begin(Shuffle(N, seed=7, rank=1, world=2), mapping)
            want = {"seed": 7, "rank": 1, "world": 2, "drop_last": False, "first": first,
                    "count": N, "epoch": 0, "position": 0}
            self.assertEqual(self.handle.take(), [("follow", "shuffled", want)])
            client.advance(plan, 1, 20, 0.5)
            client.advance(plan, 2, 10, 0.25)
            self.assertEqual(self.handle.take(), [("advance", 0, 10, 20, 0.5),
                                                  ("advance", 0, 20, 10, 0.75)])
            plan = self.next_epoch(epochs, client)
            client.advance(plan, 0, 0, 0)
            self.assertEqual(self.handle.take(), [("advance", 1, 0, 0, 0.75)])
        self.assertEqual(self.opened[0], ("s3://bucket/", self.handle.again()))

    def test_an_epoch_that_was_not_foreseen_is_told_anew(self):
        sampler = Shuffle(N)
        epochs, client, _ = self.begin(sampler)
        sampler.set_epoch(9)
        client.begin(epochs.begin())
        self.assertEqual([t[2]["epoch"] for t in self.handle.take()], [0, 9])

    def test_others_are_listed_with_what_comes_after(self):
        order = list(range(N - 1, -1, -1))
        maps = {None: order, range(0, 2 * N, 2): [2 * i for i in order],
                tuple(range(100, 100 + N)): [100 + i for i in order]}
        for mapping, want in maps.items():
            epochs, client, plan = self.begin(Backwards(), mapping)
            plan2 = self.next_epoch(epochs, client)
            client.advance(plan2, 1, 5, 0)
            self.assertEqual(self.handle.take(), [
                ("follow", want, {"epoch": 0, "position": 0}), ("more", want),
                ("advance", 1, 10, 5, 0.0)])

    def test_workers_may_be_in_the_next_epoch_already(self):
        epochs, client, plan = self.begin(Backwards())
        client.look_ahead(epochs.ahead())
        self.handle.take()
        client.advance(epochs.ahead(), 2, 5, 0)
        self.assertEqual(self.handle.take(), [("advance", 1, 20, 5, 0.0)])
        client.begin(epochs.begin())
        self.assertEqual(self.handle.take(), [])

    def test_the_end_of_an_epoch_counts_what_made_no_batch(self):
        sampler = Backwards(25)
        epochs = EpochState(sampler, BatchSampler(sampler, 10, True))
        client, plan = OrderClient((self.handle, None)), epochs.begin()
        client.begin(plan)
        client.advance(plan, 2, 0, 0)
        self.assertEqual(self.handle.take()[-1], ("advance", 0, 25, 0, 0.0))

    def test_targets_count(self):
        epochs, client, plan = self.begin(Shuffle(N, shuffle=False), targets=True)
        client.advance(plan, 1, 10, 0)
        self.assertEqual(self.handle.take(), [
            ("follow", list(range(N)), {"epoch": 0, "position": 0}), ("advance", 0, 20, 20, 0.0)])

    def test_a_shuffle_resumed_on_other_ranks(self):
        sampler = Shuffle(N, shuffle=False)
        epochs = EpochState(sampler, BatchSampler(sampler, 10, False))
        other = Shuffle(N, shuffle=False, rank=0, world=2)
        before = EpochState(other, BatchSampler(other, 5, False))
        before.begin().hand(0)
        epochs.load_state_dict(before.state_dict())
        client, plan = OrderClient((self.handle, None)), epochs.begin()
        client.begin(plan)
        self.next_epoch(epochs, client)
        told = self.handle.take()
        self.assertEqual([t[:2] for t in told], [
            ("follow", list(range(10, N))), ("more", list(range(N))), ("follow", "sequential")])
        self.assertEqual(told[2][2]["epoch"], 1)

    def test_a_sampler_without_end_is_told_in_parts(self):
        epochs, client, plan = self.begin(Forever(), size=1)
        told = []
        for b in range(1500):
            self.assertTrue(plan.has(b))
            client.advance(plan, b, 0, 0)
            plan.hand(b)
            told += [t for t in self.handle.take() if t[0] != "advance"]
        self.assertEqual([t[0] for t in told], ["follow"] + ["more"] * 6)
        listed = [i for t in told for i in t[1]]
        self.assertEqual(listed, [i % N for i in range(len(listed))])
        self.assertLess(len(plan._parts), 4)

    def test_what_is_no_number_is_not_told(self):
        for said in (["a", "b"], [0, N], [0, -N - 1]):
            epochs, client, plan = self.begin(said, size=1)
            client.advance(plan, 1, 0, 0)
            self.assertEqual(self.handle.take(), [])
        self.begin([0, -1, 5], size=1)
        self.assertEqual(self.handle.take()[0][1], [0, N - 1, 5])

    def test_no_daemon_is_said_once_and_tried_again(self):
        now = [100.0]
        with unittest.mock.patch.object(order_client.time, "monotonic", lambda: now[0]), \
                warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            self.handle.broken = True
            epochs, client, plan = self.begin(Backwards())
            for _ in range(5):
                client.advance(plan, 1, 0, 0)
                now[0] += 0.6
            self.assertEqual(len(caught), 1)
            self.assertIn("nothing is fetched ahead: no daemon", str(caught[0].message))
            self.handle.broken = False
            now[0] += 2
            plan.hand(0)
            client.advance(plan, 1, 0, 0)
            self.assertEqual([t[0] for t in self.handle.take()], ["follow", "advance"])

    def test_closing_twice(self):
        client = self.begin(Backwards())[1]
        client.close()
        client.close()
        self.assertEqual(self.handle.take()[1:], [("close",)])


if __name__ == "__main__":
    unittest.main()
