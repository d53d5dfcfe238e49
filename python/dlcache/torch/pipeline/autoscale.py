# SPDX-License-Identifier: Apache-2.0
"""Autoscaler: how many workers a loader should have. The loader asks once per batch.

No clock, no threads, no processes: the same calls give the same answers.

Two regimes, told apart by the stalled share (time waited / time) of the batches seen lately:

    FED      Hardly any waits. `need` = time to make a batch / time of a step, with headroom for
             jitter and for the slowest batch seen. Workers above it are retired, slowly, after
             they were too many for a whole window. A retirement that is followed by waits is
             taken back, and not repeated for a while that doubles each time.
    HUNGRY   The loader waits. Then the time per sample is measured for some numbers of workers,
             one window each, and the cheapest number is held; of those that differ by less than
             GAIN, the smallest. Which numbers:
               1. at once as many as `need` says, for waiting for I/O may need very many;
               2. if that bought less than it should: the knee, somewhat over rate x (time of a
                  batch when few make them), or half of them when the cores are busy and no small
                  number was measured. Beyond the knee they only queue, for a bucket or for cores;
               3. if it made things worse: a little more than the best.
             Then nothing is tried for a while that doubles each time, or until the times of steps
             or batches change.

(AUTOSCALE-1) 1 <= wanted <= limit.
(AUTOSCALE-2) Not over cores + 1, unless workers mostly wait: their CPU time is below
     WAITING of their time.
(AUTOSCALE-3) One step that lasts long (an evaluation, the pause between epochs) retires no
     worker and spoils no measurement.

Not here: what memory allows (the loader's `limit`), starting and ending processes (worker_pool.py).
"""
from __future__ import annotations

import collections
import math

__all__ = ["Autoscaler"]

BLIP_S = 0.0005  # a shorter wait is the cost of next(), not a stall
HUNGRY = 0.02    # stalled share from which more workers are looked for
STARVED = 0.2    # ... without waiting for the end of the window
FED = 0.005      # stalled share up to which workers are retired
GAIN = 0.02      # less than that is not worth a worker
USE = 0.8        # share of their time that workers may be busy when nothing stalls
WAITING = 0.7    # CPU time / time of a worker below which it mostly waits
PAUSE = 8.0      # a step this many times as long as usual is a pause
CHANGED = 1.5    # a time that grew or shrank by this much is another one
WINDOW = 32      # batches looked at, at least
BLOCKS = 64      # of a window that are kept to tell its noise
HOLD, HOLD_MOST = 128, 4096  # batches until something is tried again


def differ(a: float, b: float) -> bool:
    """Whether two known times are too different to be the same."""
    return a > 0 and b > 0 and not 1 / CHANGED < a / b < CHANGED


class _Window:
    """Time per sample over some batches, in blocks: those of W workers come in bursts of W."""

    def __init__(self, workers: int):
        self.block = max(4, workers)
        self.batches, self.time, self.waited, self.samples = 0, 0.0, 0.0, 0
        self.waits = 0
        self._open = [0.0, 0]
        self._blocks: list[float] = []

    def add(self, waited: float, step: float, samples: int) -> None:
        self.batches += 1
        self.time += waited + step
        self.samples += samples
        if waited > BLIP_S:
            self.waited += waited
            self.waits += 1
        self._open[0] += waited + step
        self._open[1] += samples
        if self.batches % self.block == 0:
            self._blocks.append(self._open[0] / self._open[1])
            self._open = [0.0, 0]

    def merge(self, later: _Window) -> None:
        """Add what was measured later with the same number of workers."""
        self.batches += later.batches
        self.time += later.time
        self.waited += later.waited
        self.waits += later.waits
        self.samples += later.samples
        self._blocks = (self._blocks + later._blocks)[-BLOCKS:]

    @property
    def whole(self) -> bool:
        return self.batches > 0 and self.batches % self.block == 0

    @property
    def stalled(self) -> float:
        """Share of the time; a single wait (the first batch of an epoch) is none to act upon."""
        return self.waited / self.time if self.waits > 1 else 0.0

    @property
    def cost(self) -> float:
        return self.time / self.samples

    @property
    def error(self) -> float:
        """Standard error of the cost, as a share of it."""
        n = len(self._blocks)
        if n < 2 or self.cost <= 0:
            return 0.1
        mean = sum(self._blocks) / n
        variance = sum((b - mean) ** 2 for b in self._blocks) / (n - 1)
        return max(math.sqrt(variance / n) / mean, 0.1 / n)


class _Times:
    """How long steps and batches take, smoothed; a pause counts as four usual steps."""

    def __init__(self):
        self._steps: collections.deque[float] = collections.deque(maxlen=16)
        self._slow: collections.deque[float] = collections.deque(maxlen=4 * WINDOW)
        self._by_workers: dict[int, tuple[float, int]] = {}  # mean time of a batch, of how many
        self.busy, self.cpu, self._since_pause = 0.0, 0.0, 0
        self._cpu_then = 0.0  # what the means by workers belong to

    def learn(self, step: float, busy: float, cpu: float, workers: int, settled: bool) -> bool:
        """Take one batch's times; True if the step was a pause."""
        usual = self._median()
        pause = step > PAUSE * usual > 0 and step > 2 * self.busy and self._since_pause > WINDOW
        self._since_pause = 0 if pause else self._since_pause + 1
        if step > 0:
            self._steps.append(step)
        if busy > 0:
            self.busy += (busy - self.busy) * (0.2 if self.busy > 0 else 1)
            self.cpu += (cpu - self.cpu) * (0.2 if self.cpu > 0 else 1)
            self._slow.append(busy)
            if differ(self.cpu, self._cpu_then) or self._cpu_then == 0:
                self.forget()
                self._cpu_then = self.cpu
            if settled:
                self._learn_at(workers, busy)
        return pause

    def _learn_at(self, workers: int, busy: float) -> None:
        mean, n = self._by_workers.get(workers, (0.0, 0))
        n = min(n + 1, WINDOW)
        self._by_workers[workers] = (mean + (busy - mean) / n, n)

    def _median(self) -> float:
        ordered = sorted(self._steps)
        return ordered[len(ordered) // 2] if ordered else 0.0

    @property
    def step(self) -> float:
        usual = self._median()
        return sum(min(s, 4 * usual) for s in self._steps) / len(self._steps) if usual > 0 else 0.0

    @property
    def alone(self) -> float:
        """Time to make a batch when nobody is in the way: the least of what was measured."""
        return min([mean for mean, _ in self._by_workers.values()] + [self.busy])

    @property
    def fewest(self) -> int:
        """The smallest number of workers for which that was measured."""
        return min(self._by_workers, default=0)

    @property
    def slowest(self) -> float:
        return max(self._slow, default=0.0)

    def forget(self) -> None:
        self._by_workers.clear()


class Autoscaler:
    """How many workers.

    Args:
        cores: Cores that workers and training share.
        limit: Most workers there may be; the attribute may be changed, when memory grows short.
        start: How many there are before the first batch.
    """

    def __init__(self, cores: int, limit: int, start: int) -> None:
        if cores < 1 or limit < 1 or not 1 <= start <= limit:
            raise ValueError(f"want cores >= 1 and 1 <= start <= limit, got cores={cores}, "
                             f"limit={limit}, start={start}")
        self.cores, self.limit, self.wanted = cores, limit, start
        self._batches = 0
        self._times = _Times()
        self._window = _Window(start)
        self._settle = 0        # batches to come that were still made by another number
        self._need_most = 0     # in this window
        self._costs: dict[int, _Window] = {}  # what was measured while hungry
        self._trying = False
        self._hold = HOLD       # how long the next conclusion stands
        self._held = 0          # batches for which the last one still stands
        self._regime = (0.0, 0.0)  # (step, CPU of a batch) when it was reached
        self._floor, self._floor_for, self._floor_next = 1, 0, 8 * WINDOW
        self._retired_from, self._since_retired = 0, 0

    def step(self, waited_s: float, step_s: float, busy_s: float, cpu_s: float,
             samples: int) -> int:
        """How many workers there should be now. Called when a batch is handed to the user.

        Args:
            waited_s: How long the user waited for this batch.
            step_s: How long the user had taken before asking for it (0 for the first).
            busy_s, cpu_s: Time and CPU time a worker took to make a batch, mean of those finished
                since the last call; 0 if there were none.
            samples: In this batch.
        """
        self._batches += 1
        settled = self._settle == 0
        pause = self._times.learn(step_s, busy_s, cpu_s, self.wanted, settled)
        self._floor_for = max(0, self._floor_for - 1)
        self._held = max(0, self._held - 1)
        self._since_retired += 1
        if self.wanted > self.limit:
            self._trying = False
            self._costs.clear()
            return self._move(max(1, self.limit))
        if self._batches == 1:  # its wait is the start of the processes
            return self.wanted
        if self._batches == 2:
            return self._first_guess()
        if pause:  # meanwhile all buffers filled: not a rate that would last
            self._settle = 2 * self.wanted
            return self.wanted
        if not settled:
            self._settle -= 1
            return self.wanted
        self._window.add(waited_s, step_s, max(1, samples))
        self._need_most = max(self._need_most, self._need())
        return self._decide()

    # What is needed

    def _need(self) -> int:
        """Workers that keep up with the steps."""
        step = self._times.step
        if self._times.busy <= 0:
            return self.wanted
        if step * self.limit <= self._times.busy * 1e-3:
            return self.limit
        return max(1, min(self.limit, math.ceil(self._times.busy / step / USE)))

    def _spare(self) -> int:
        """Workers whose finished batches bridge the slowest one, two batches each."""
        step, slowest = self._times.step, self._times.slowest
        if step <= 0:
            return self.wanted
        return 1 if slowest <= step else min(self.wanted, 1 + math.ceil(slowest / step / 2))

    def _cap(self) -> int:
        """Most workers that the cores can feed."""
        alone, cpu = self._times.alone, self._times.cpu
        if self._computes():
            return min(self.limit, self.cores + 1)
        return self.limit if cpu <= 0 else min(self.limit, math.ceil(2 * self.cores * alone / cpu))

    def _computes(self) -> bool:
        """Whether workers compute more than they wait, as far as is known."""
        return self._times.alone <= 0 or self._times.cpu > WAITING * self._times.alone

    # Changes

    def _move(self, workers: int) -> int:
        if workers != self.wanted:
            self._settle = 2 * max(workers, self.wanted) + 1
            self.wanted = workers
        self._window = _Window(workers)
        self._need_most = 0
        return workers

    def _first_guess(self) -> int:
        """After one batch and one step the ratio is known, roughly: too many are retired later, and
        whether one more than there are cores helps is measured first."""
        cap = min(self._cap(), self.cores) if self._computes() else self._cap()
        return self._move(max(self.wanted, min(self._need(), cap)))

    def _decide(self) -> int:
        window = self._window
        if not window.whole:
            return self.wanted
        if self._trying:
            return self._judge()
        enough = 2 * window.block if window.stalled > STARVED else WINDOW
        if window.batches < max(enough, 2 * window.block):
            return self.wanted
        if window.stalled > HUNGRY:
            return self._hungry()
        self._costs.clear()
        return self._fed()

    def _fed(self) -> int:
        """Nothing stalls: with fewer too?"""
        few = max(self._need_most, self._spare(), 1, self._floor if self._floor_for else 1)
        if self._window.stalled > FED or few >= self.wanted:
            return self._move(self.wanted)
        self._retired_from, self._since_retired = self.wanted, 0
        return self._move(max(few, self.wanted - max(1, self.wanted // 3)))

    def _hungry(self) -> int:
        if self._retired_from > self.wanted and self._since_retired < 4 * WINDOW:
            self._floor = self._retired_from
            self._floor_for, self._floor_next = self._floor_next, 2 * self._floor_next
            self._retired_from = 0
            return self._move(self._floor)
        if self._changed():
            self._costs.clear()
            self._times.forget()
            self._hold, self._held = HOLD, 0
        known = self._costs.setdefault(self.wanted, self._window)
        if known is not self._window:
            known.merge(self._window)
        return self._move(self.wanted) if self._held > 0 else self._explore()

    def _changed(self) -> bool:
        step, cpu = self._regime
        known = self._costs.get(self.wanted)
        return (differ(self._times.cpu, cpu) or (differ(self._times.step, step) and
                max(step, self._times.step) > 0.1 * self._times.busy) or
                (known is not None and self._window.batches >= WINDOW and
                 differ(known.cost, self._window.cost)))

    # Trying numbers while hungry

    def _judge(self) -> int:
        """A number was tried: is it known well enough, and what comes next?"""
        window, others = self._window, [w for n, w in self._costs.items() if n != self.wanted]
        hopeless = window.cost > CHANGED * min(w.cost for w in others)
        if window.batches < max(WINDOW // 2, 2 * window.block) and not hopeless:
            return self.wanted
        clear = all(abs(window.cost / w.cost - 1) > 2 * math.hypot(window.error, w.error)
                    for w in others)
        enough = window.batches >= max(2 * WINDOW, 4 * window.block)
        if not clear and not enough and window.error > GAIN / 2:
            return self.wanted
        self._trying = False
        self._costs[self.wanted] = window
        if window.stalled < HUNGRY and self.wanted == self._best():
            self._costs.clear()
            return self._move(self.wanted)
        return self._explore()

    def _best(self) -> int:
        """The smallest number that costs hardly more than the cheapest."""
        least = min(w.cost for w in self._costs.values())
        return min(n for n, w in self._costs.items() if w.cost <= least * (1 + GAIN))

    def _candidate(self, best: int) -> int:
        """A number worth trying, or 0."""
        cost, most = self._costs[best], max(self._costs)
        cap = self._cap()
        rate = cost.batches / cost.time
        saturated = rate * self._times.cpu > 0.9 * self.cores
        up = min(cap, max(self._need(), best + 1))
        if up > most and not (saturated and best >= self.cores):
            return up
        knee = max(1, math.ceil(1.5 * rate * self._times.alone))
        if saturated and self._times.fewest > self.cores + 1:
            knee = min(knee, max(self.cores + 1, best // 2))
        known = any(knee <= n < best for n in self._costs)
        if cost.stalled > STARVED and knee < best and not known:
            return knee
        up = best + max(1, best // 4)
        between = any(best < n <= up for n in self._costs)
        if up <= cap and not between and self._costs[most].cost > 1.05 * cost.cost:
            return up
        return 0

    def _explore(self) -> int:
        best = self._best()
        candidate = self._candidate(best)
        if candidate:
            self._trying = True
            return self._move(candidate)
        self._held, self._hold = self._hold, min(2 * self._hold, HOLD_MOST)
        self._regime = (self._times.step, self._times.cpu)
        self._costs = {best: self._costs[best]}
        return self._move(best)
