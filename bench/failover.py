# SPDX-License-Identifier: Apache-2.0
"""What does training notice when a node, the leading manager, or Redis dies? Samples lost or repeated, longest stall.

Three nodes, two managers on one Redis, and a real S3 server (versitygw), each in a network namespace with an address of
its own, all on this machine. 2,000 objects of 50 KB, memory for 60 % of them on each node, no disk tier. A reader on each
of two nodes reads epochs of all samples, each in a shuffled order of its own, in steps of 2 ms. A third into the epoch,
while they read, something dies and stays dead until the epoch is over:

    none      nothing: what the machine itself does
    node      the third node gets SIGKILL: its connections are closed
    host      the third node's host falls silent: nothing is closed, nothing is refused
    standby   the manager that waits gets SIGKILL: as `manager`, but nothing is taken over
    manager   the manager that leads gets SIGKILL
    redis     redis-server gets SIGKILL

Then it is started again, and epochs are read that do not count until one is read without the bucket: a node that was
away is asked again only after a pause, and fills its memory again. So each kind begins with everything in the nodes'
memory, and pays for nothing that died before it. A stall is the time inside dlc_next() for one sample; the longest after
the death counts, of all rounds. `before` is the longest before it, of the same epochs: what the machine and the beginning
of an epoch do. `takeover_s` is the time from the kill of the manager until the other one leads; `back_s` from the start of
Redis until one leads again.

What bounds them: a killed node's connections are refused at once. A silent one is given up after four times the 99th
percentile of its answers, at least 250 ms and at most 2 s, and left alone after three such failures. No sample waits for
a manager or for Redis. A new manager leads after the lock's time (2 s here, 10 s by default) and a tenth of it.

DLCACHE_BENCH_RUNS: rounds, 4 by default.
"""
import os
import subprocess
import time

from common import make_files, median, program, scratch, table, wait_for

OBJECTS, SIZE, SHARE, PACE, BUCKET = 2000, 50_000, 0.6, 0.002, "bench"
LOCK_S = 2
FLAGS = ("--node-ttl", "2s", "--lock-ttl", f"{LOCK_S}s")
ROUNDS = int(os.environ.get("DLCACHE_BENCH_RUNS", "4"))


def leader(c):
    return next((m for m in c.managers if m.process is not None and m.leads()), None)


def until_led(c):
    """Seconds until a manager leads."""
    start = time.monotonic()
    wait_for(lambda: leader(c), "a manager that leads")
    return time.monotonic() - start


class Nothing:
    figure = None

    def __init__(self, c, redis):
        self.c, self.redis = c, redis

    def die(self):
        """Returns what is measured of it, or None."""

    def live(self):
        pass


class Node(Nothing):
    def die(self):
        self.c.nodes[2].kill()

    def live(self):
        self.c.nodes[2].start()


class Host(Nothing):
    def die(self):
        self.c.net.down("c")

    def live(self):
        self.c.net.up("c")


class Standby(Nothing):
    def die(self):
        leads = leader(self.c)
        self.kill(next(m for m in self.c.managers if m is not leads))

    def kill(self, manager):
        self.dead = manager
        self.dead.kill()

    def live(self):
        self.dead.start()


class Manager(Standby):
    figure = "takeover_s"

    def die(self):
        self.kill(leader(self.c))
        return until_led(self.c)


class Redis(Nothing):
    figure = "back_s"

    def die(self):
        self.redis.kill(0)

    def live(self):
        self.redis.start(0)
        return until_led(self.c)


KINDS = {"none": Nothing, "node": Node, "host": Host, "standby": Standby, "manager": Manager, "redis": Redis}


class Result:
    def __init__(self):
        self.stalls, self.before = {kind: [] for kind in KINDS}, {kind: [] for kind in KINDS}
        self.figures = {"takeover_s": [], "back_s": []}
        self.lost = self.repeated = self.wrong = 0

    def add(self, kind, jobs, before):
        self.before[kind].append(before)
        self.stalls[kind].append(longest(jobs))
        for j in jobs:
            lost, repeated, wrong = j.faults()
            self.lost += lost
            self.repeated += repeated
            self.wrong += wrong


def longest(jobs):
    return max(j.longest for j in jobs)


def epoch(jobs, pace, during=lambda: None):
    """The longest wait before it, and what it measured; the longest from then on is the jobs'."""
    import job

    for j in jobs:
        j.seed, j.pace = j.seed + len(jobs), pace
        j.begin()
    job.go(jobs, OBJECTS // 3)
    before = longest(jobs)
    for j in jobs:
        j.longest = 0.0
    job.send(jobs)
    measured = during()
    job.take(jobs)
    return before, measured


def without_bucket(c, jobs):
    """Does an epoch come from the nodes' memory alone?"""
    def asked():
        return sum(n.counter("bucket_requests") for n in c.nodes)
    already = asked()
    epoch(jobs, 0)
    return asked() == already


def one_round(c, redis, jobs, result):
    for kind, make in KINDS.items():
        event = make(c, redis)
        before, died = epoch(jobs, PACE, event.die)
        result.add(kind, jobs, before)
        lived = event.live()
        if event.figure is not None:
            result.figures[event.figure].append(died if died is not None else lived)
        wait_for(lambda: leader(c), "a manager that leads")
        c.settle(3)
        wait_for(lambda: without_bucket(c, jobs), "an epoch without the bucket", timeout=120)


def measure(root):
    import dl
    import hosts
    import job
    import redisd
    import s3server

    class Cluster(hosts.Cluster):
        def bucket(self):
            return s3server.Real(root, BUCKET, host=self.place("s3"))

    result = Result()
    with hosts.Net() as net, redisd.One(places=[net.host("r")], dir=dl.path("redis")) as redis, \
            Cluster(3, net=net, memory=str(int(OBJECTS * SIZE * SHARE)), manager_flags=FLAGS, managers=2,
                    store=redis.url + "/bench") as c:
        for m in c.managers:  # started again, they are where nodes look for them
            m.flags[m.flags.index("--listen") + 1] = m.address
        c.credentials("ann", c.ann)
        c.register("train", f"s3://{BUCKET}/train/")
        files = sorted(os.path.join(here, n) for here, _, names in os.walk(f"{root}/{BUCKET}/train") for n in names)
        jobs = job.start(c, "train", [open(f, "rb").read() for f in files], on=[0, 1])
        wait_for(lambda: without_bucket(c, jobs), "an epoch without the bucket", timeout=120)
        for _ in range(ROUNDS):
            one_round(c, redis, jobs, result)
    return result


def run(build):
    subprocess.run(["tools/get-versitygw", build], check=True, stdout=subprocess.DEVNULL)
    with scratch() as home, scratch("/dev/shm") as memory:
        os.environ.update(TEST_DIR=home, DLCACHE_BUILD=build, DLCACHE_PROGRAM=program(build),
                          PYTHONPATH=os.path.abspath("tests/lib"))
        root = os.path.join(memory, "s3")
        make_files(os.path.join(root, BUCKET, "train"), OBJECTS, SIZE)
        r = measure(root)
    ms = {kind: [1000 * s for s in stalls] for kind, stalls in r.stalls.items()}
    table(["dies", "longest stall, ms", "median of rounds", "least..most", "before"],
          [[kind, f"{max(v):.1f}", f"{median(v):.1f}", f"{min(v):.1f}..{max(v):.1f}", f"{1000 * max(r.before[kind]):.1f}"]
           for kind, v in ms.items()])
    for name, text in (("takeover_s", "the other manager leads after"), ("back_s", "with Redis back, one leads after")):
        v = r.figures[name]
        print(f"{text} {median(v):.2f} s ({min(v):.2f}..{max(v):.2f}); the lock's time is {LOCK_S} s")
    print(f"samples lost {r.lost}, repeated {r.repeated}, with wrong bytes {r.wrong}; {ROUNDS} rounds")
    return {
        "runs": ROUNDS, "objects": OBJECTS, "object_bytes": SIZE, "step_s": PACE, "lock_ttl_s": LOCK_S,
        "lost": r.lost, "repeated": r.repeated, "wrong": r.wrong,
        "longest_stall_s": {kind: round(max(v), 4) for kind, v in r.stalls.items()},
        "median_stall_s": {kind: round(median(v), 4) for kind, v in r.stalls.items()},
        "before_s": {kind: round(max(v), 4) for kind, v in r.before.items()},
        **{name: round(median(v), 3) for name, v in r.figures.items()},
        "takeover_most_s": round(max(r.figures["takeover_s"]), 3),
    }
