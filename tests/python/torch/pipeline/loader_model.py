# SPDX-License-Identifier: Apache-2.0
"""A loader without processes: what a number of workers is worth, computed.

    run(Scene(...), workers=4)          a fixed number
    run(Scene(...), workers=Autoscaler(..)) as many as it says, asked once per batch

Events in exact order, no clock, one seed: the same arguments give the same Outcome. Modelled are:

- W workers, each with a queue of its own; at most `prefetch` x W batches made or being made and
  not yet taken; batches are taken strictly in order; a new worker comes `start_s` after it is
  asked for; a retired one finishes what is in its queue.
- A batch waits `io_s` (nobody else is slowed by that), then moves `bucket_s` through a pipe that is
  shared (a bucket's bandwidth), then computes `cpu_s` on cores that are shared.
- The consumer's step waits (`step_s`, a GPU) or computes (`step_cpu_s`, on the same cores). Each
  core that is asked for by more than one slows everybody by `crowd`, for switching.
- Every time is multiplied by a random factor of +-`jitter`; one batch in `tail_every` takes
  `tail` times as long. `phases` change the scene from a given batch on.
"""
import dataclasses
import functools
import heapq

IO, CPU, STEP = range(3)


@dataclasses.dataclass(frozen=True)
class Scene:
    cores: int = 4
    limit: int = 16
    io_s: float = 0.0
    bucket_s: float = 0.0
    cpu_s: float = 0.0
    step_s: float = 0.0
    step_cpu_s: float = 0.0
    jitter: float = 0.1
    tail: float = 1.0
    tail_every: int = 0
    crowd: float = 0.01
    start_s: float = 0.03
    prefetch: int = 2
    samples: int = 32
    pause_every: int = 0  # batches between two pauses: evaluation, the end of an epoch
    pause_s: float = 0.0
    phases: tuple = dataclasses.field(default=(), hash=False)  # of (first batch, {field: value})

    def at(self, batch):
        """The scene as it is when this batch is made or taken."""
        return self._phase(sum(batch >= first for first, _ in self.phases)) if self.phases else self

    @functools.cache
    def _phase(self, number):
        scene = self
        for _, fields in self.phases[:number]:
            scene = dataclasses.replace(scene, phases=(), **fields)
        return scene


@dataclasses.dataclass
class Outcome:
    taken: list  # when each batch was taken
    waited: list
    workers: list  # how many there were to be after it

    def rate(self, first=0, last=None):
        """Batches per second from batch `first` on, up to `last`."""
        last = len(self.taken) - 1 if last is None else last
        begin = self.taken[first - 1] if first > 0 else 0.0
        return (last + 1 - first) / (self.taken[last] - begin)

    def stalled(self, first=0):
        return sum(self.waited[first:]) / (self.taken[-1] - (self.taken[first - 1] if first else 0))


def _mix(*numbers):
    """A number in [0, 1) from integers."""
    h = 0x9E3779B97F4A7C15
    for n in numbers:
        h = (h ^ (n + 1)) * 0xBF58476D1CE4E5B9 & (1 << 64) - 1
        h ^= h >> 29
        h = h * 0x94D049BB133111EB & (1 << 64) - 1
        h ^= h >> 32
    return h / 2 ** 64


class _Shared:
    """A resource of `capacity` units that all who use it share alike, at most one unit each."""

    def __init__(self, capacity, crowd=0.0):
        self.capacity, self.crowd = capacity, crowd
        self.virtual, self.last, self.heap = 0.0, 0.0, []

    def speed(self):
        n = len(self.heap)
        over = max(0.0, n - self.capacity)
        return min(1.0, self.capacity / n) / (1 + self.crowd * over / self.capacity) if n else 1.0

    def advance(self, now):
        self.virtual += (now - self.last) * self.speed()
        self.last = now

    def add(self, now, work, what):
        self.advance(now)
        heapq.heappush(self.heap, (self.virtual + work, what))

    def next_end(self):
        return self.last + max(0.0, self.heap[0][0] - self.virtual) / self.speed()

    def pop(self, now):
        self.advance(now)
        return heapq.heappop(self.heap)[1]


class _Worker:
    def __init__(self):
        self.queue, self.now, self.alive, self.retired = [], None, False, False

    def load(self):
        return len(self.queue) + (self.now is not None)


class _Model:
    def __init__(self, scene, batches, workers, seed):
        self.scene, self.batches, self.seed = scene, batches, seed
        self.scaler = None if isinstance(workers, int) else workers
        self.now, self.order = 0.0, 0
        self.timers = []
        self.cores = _Shared(scene.cores, scene.crowd)
        self.pipe = _Shared(1)
        self.workers = []
        self.dealt, self.taken, self.ready = 0, 0, set()
        self.begun, self.used = {}, {}
        self.finished = []  # (busy, cpu) since the scaler was last asked
        self.asked, self.step_began, self.step_s = 0.0, 0.0, 0.0
        self.consumer_waits = True
        self.out = Outcome([], [], [])
        self.resize(workers if self.scaler is None else self.scaler.wanted)

    def timer(self, delay, kind, who):
        self.order += 1
        heapq.heappush(self.timers, (self.now + delay, self.order, kind, who))

    def factor(self, scene, batch, what):
        """The same for the same batch, whoever makes it and when: runs can be compared."""
        f = 1 + scene.jitter * (2 * _mix(self.seed, batch, what) - 1)
        late = what != STEP and scene.tail_every and batch % scene.tail_every == 7
        return f * scene.tail if late else f

    def active(self):
        return [w for w in self.workers if not w.retired]

    def resize(self, n):
        active = self.active()
        for worker in active[n:]:
            worker.retired = True
        for _ in range(n - len(active)):
            worker = _Worker()
            self.workers.append(worker)
            self.timer(self.scene.start_s, "born", worker)
        self.deal()

    def deal(self):
        active = self.active()
        room = len(active) * self.scene.prefetch - (self.dealt - self.taken)
        while room > 0 and self.dealt < self.batches:
            free = [w for w in active if w.load() < self.scene.prefetch]
            if not free:
                return
            min(free, key=_Worker.load).queue.append(self.dealt)
            self.dealt += 1
            room -= 1
        for worker in active:
            self.begin(worker)

    def begin(self, worker):
        if not worker.alive or worker.now is not None or not worker.queue:
            return
        batch = worker.now = worker.queue.pop(0)
        scene = self.scene.at(batch)
        self.begun[batch] = self.now
        self.timer(scene.io_s * self.factor(scene, batch, IO), "fetched", worker)

    def fetched(self, worker):
        scene = self.scene.at(worker.now)
        if scene.bucket_s > 0:
            self.order += 1
            self.pipe.add(self.now, scene.bucket_s, (self.order, worker))
        else:
            self.compute(worker)

    def compute(self, worker):
        scene = self.scene.at(worker.now)
        work = scene.cpu_s * self.factor(scene, worker.now, CPU)
        self.used[worker.now] = work
        self.order += 1
        self.cores.add(self.now, work, (self.order, worker))

    def made(self, worker):
        batch, worker.now = worker.now, None
        self.finished.append((self.now - self.begun.pop(batch), self.used.pop(batch)))
        self.ready.add(batch)
        self.begin(worker)
        if worker.retired and worker.now is None:
            self.workers.remove(worker)
        if self.consumer_waits:
            self.take()

    def take(self):
        if self.taken not in self.ready:
            return
        self.ready.remove(self.taken)
        self.consumer_waits = False
        batch, waited = self.taken, self.now - self.asked
        self.taken += 1
        self.out.taken.append(self.now)
        self.out.waited.append(waited)
        if self.scaler is not None:
            n = max(1, len(self.finished))
            busy, cpu = (sum(f[k] for f in self.finished) / n for k in (0, 1))
            self.finished.clear()
            self.resize(self.scaler.step(waited, self.step_s, busy, cpu, self.scene.samples))
        self.out.workers.append(len(self.active()))
        self.deal()
        self.train(batch)

    def train(self, batch):
        scene = self.scene.at(batch)
        self.step_began = self.now
        if scene.step_cpu_s > 0:
            self.order += 1
            work = scene.step_cpu_s * self.factor(scene, batch, STEP)
            self.cores.add(self.now, work, (self.order, None))
            return
        pauses = scene.pause_every and batch % scene.pause_every == scene.pause_every - 1
        step = scene.step_s * self.factor(scene, batch, STEP)
        self.timer(step + (scene.pause_s if pauses else 0.0), "trained", None)

    def trained(self):
        self.step_s = self.now - self.step_began
        self.asked = self.now
        self.consumer_waits = True
        self.take()

    def run(self):
        while self.taken < self.batches:
            ends = [(self.timers[0][0], 0)] if self.timers else []
            ends += [(s.next_end(), k) for k, s in ((1, self.cores), (2, self.pipe)) if s.heap]
            self.now, which = min(ends)
            if which == 0:
                _, _, kind, worker = heapq.heappop(self.timers)
                if kind == "born":
                    worker.alive = True
                    self.begin(worker)
                elif kind == "fetched":
                    self.fetched(worker)
                else:
                    self.trained()
            elif which == 1:
                worker = self.cores.pop(self.now)[1]
                self.made(worker) if worker is not None else self.trained()
            else:
                self.compute(self.pipe.pop(self.now)[1])
        return self.out


def run(scene, batches, workers, seed=1):
    """What happens in `batches` batches with a number of workers, or with a Autoscaler's."""
    return _Model(scene, batches, workers, seed).run()
