# SPDX-License-Identifier: Apache-2.0
"""What do jobs notice of a rolling upgrade? Failed and wrong reads, longest stall, objects that the bucket gives again.

Three nodes with a disk tier, two managers on one Redis, and a bucket that counts, all on this machine. 600 objects of
50 KB. Two jobs on each node, which have a token of their tenant and no keys of the bucket, read epochs of all samples in
shuffled orders of their own, in steps of 10 ms. While they read, all is upgraded as docs/cluster.md says: each node in turn,
then each manager, is stopped by SIGTERM and started from another path; the next one follows when all nodes are live again.

A stall is the time inside dlc_next() for one sample. `before` is the longest of an epoch without an upgrade.
`gets_per_object` are GETs from the beginning of the upgrade on, for each object: every object was read before.

DLCACHE_BENCH_RUNS: rounds, 3 by default.
"""
import os
import shutil
import time

from common import median, program, scratch, table, wait_for

OBJECTS, SIZE, PACE, JOBS_EACH = 600, 50_000, 0.01, 2
ROUNDS = int(os.environ.get("DLCACHE_BENCH_RUNS", "3"))


def leader(c):
    return next((m for m in c.managers if m.process is not None and m.leads()), None)


def upgrade(c, new):
    """Everything, one after the other; returns how long each was away."""
    import dl

    dl.PROGRAM = new
    away = []
    for server in [*c.nodes, *c.managers]:
        begin = time.monotonic()
        server.stop()
        server.start()
        wait_for(lambda: leader(c), "a manager that leads")
        c.settle(len(c.nodes))
        away.append(time.monotonic() - begin)
    return away


class Result:
    def __init__(self):
        self.stalls, self.before, self.gets, self.away = [], [], [], []
        self.failed = self.wrong = 0

    def add(self, jobs, into):
        for j in jobs:
            lost, repeated, wrong = j.faults()
            self.failed += lost + repeated
            self.wrong += wrong
        into.append(max(j.longest for j in jobs))


def begin(jobs):
    import job

    for j in jobs:
        j.seed += len(jobs)
        j.begin()
    job.send(jobs)


def take(jobs):
    """Of an epoch: how many failed."""
    return sum(j.stepped() is not None for j in jobs)


def one_round(c, jobs, new, r):
    begin(jobs)
    r.failed += take(jobs)
    r.add(jobs, r.before)
    gets = sum(c.server.gets().values())
    begin(jobs)
    r.away += upgrade(c, new)
    r.failed += take(jobs)
    r.add(jobs, r.stalls)
    begin(jobs)  # what was lost would be read again here
    r.failed += take(jobs)
    r.add(jobs, r.stalls)
    r.gets.append((sum(c.server.gets().values()) - gets) / OBJECTS)


def on_disk(c):
    """Has every object a copy on a disk?"""
    return sum(n.stat()["disk"]["bytes"] for n in c.nodes) >= OBJECTS * SIZE


def measure(build, home):
    import job
    import nodes
    import redisd

    r = Result()
    with redisd.One(dir=os.path.join(home, "redis")) as redis, \
            nodes.Cluster(3, disk="1GB", managers=2, store=redis.url + "/bench",
                          manager_flags=("--node-ttl", "2s", "--lock-ttl", "2s")) as c:
        for m in c.managers:  # started again, they are where nodes look for them
            m.flags[m.flags.index("--listen") + 1] = m.address
        files = c.shared("train", OBJECTS, SIZE)
        jobs = [j for _ in range(JOBS_EACH) for j in job.start(c, "train", files, pace=PACE)]
        for k, j in enumerate(jobs):
            j.seed = k
        begin(jobs)
        r.failed += take(jobs)
        wait_for(lambda: on_disk(c), "all objects on disk", timeout=60)
        for k in range(ROUNDS):
            new = os.path.join(home, f"release-{k}", "dlcache")
            os.makedirs(os.path.dirname(new))
            shutil.copy2(program(build), new)
            one_round(c, jobs, new, r)
    return r


def run(build):
    with scratch() as home:
        os.environ.update(TEST_DIR=home, DLCACHE_BUILD=build, DLCACHE_PROGRAM=program(build),
                          PYTHONPATH=os.path.abspath("tests/lib"))
        r = measure(build, home)
    table(["", "longest stall, ms", "median", "least..most"],
          [[name, f"{1000 * max(v):.1f}", f"{1000 * median(v):.1f}", f"{1000 * min(v):.1f}..{1000 * max(v):.1f}"]
           for name, v in (("quiet", r.before), ("upgrade", r.stalls))])
    print(f"a server was away, and all was settled again, in {median(r.away):.1f} s ({min(r.away):.1f}..{max(r.away):.1f})")
    print(f"failed reads {r.failed}, with wrong bytes {r.wrong}; GETs per object beyond the first {max(r.gets):.3f}; {ROUNDS} rounds")
    return {"runs": ROUNDS, "nodes": 3, "managers": 2, "jobs": 3 * JOBS_EACH, "objects": OBJECTS, "failed": r.failed,
            "wrong": r.wrong, "longest_stall_s": round(max(r.stalls), 3), "quiet_stall_s": round(max(r.before), 3),
            "gets_per_object": round(max(r.gets), 3)}
