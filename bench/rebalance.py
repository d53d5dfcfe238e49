# SPDX-License-Identifier: Apache-2.0
"""What does it cost that a node joins, is drained, comes back, leaves? GETs of the bucket, seconds, slowdown of jobs.

    --objects N      of the dataset (default 600)
    --kilobytes K    of one object (default 250)
    --pace MS        a job computes so long on each sample (default 5)
    --rounds N       how often (default 3)
    --scratch DIR    where the disks of the nodes lie (default: where temporary files do)

Three nodes, each with memory for a third of the dataset and a disk tier for all of it, a manager, and a real S3 server
(versitygw), all on this machine. The dataset was read once: all of it is on the nodes' disks. A job on each of the three nodes
reads epochs in a shuffled order of its own. While they read, in each round

    join      a fourth node joins, and gets its share from those that owned it before
    drain     the third node is drained (`dlcache node drain --wait`)
    undrain   and owns its share again
    move      the dataset is moved to the first two nodes (`dlcache dataset move`)
    back      and to all of them again
    leave     the fourth node is drained, stopped and forgotten (`dlcache node leave`)

A step is over when no node has copies left that are for another one. `slowdown` (moving.py) is that of the worst step, each the
median of its rounds: 1.05 is 5 % slower. `baselines` is the largest of all steps. `gets_per_object` are all GETs after the first
read, those of an epoch of each job after each round included, for each object.
"""
import sys
import time

import moving
from common import median, table, wait_for

STEPS = ("join", "drain", "undrain", "move", "back", "leave")


class Steps(moving.Site):
    def join(self):
        self.c.add("d")
        self.c.settle(4)
        self.settled()

    def drain(self):
        self.cli("node", "drain", "c", "--wait")

    def undrain(self):
        self.cli("node", "undrain", "c")
        self.c.settle(4)
        self.settled()

    def moved(self):
        wait_for(lambda: "moving" not in self.c.manager.ok("GET", "/v1/datasets/train").json, "the move to end", timeout=600)
        self.settled()

    def move(self):
        self.cli("dataset", "move", "train", "a", "b")
        self.moved()

    def back(self):
        self.cli("dataset", "move", "train", "--all")
        self.moved()

    def leave(self):
        d = self.c.nodes[3]
        self.cli("node", "drain", "d", "--wait")
        self.gone += d.counter("bucket_gets")
        d.stop()
        self.cli("node", "leave", "d")
        self.c.nodes.pop().__exit__(None, None, None)
        self.c.settle(3)

    def one_round(self, jobs, n):
        self.baseline(jobs)
        out = {name: self.step(jobs, getattr(self, name)) for name in STEPS}
        before = self.gets()
        jobs.epoch(n)
        out["epoch"] = {"gets": self.gets() - before}
        return out


def measure(root, a):
    size, n = int(a.kilobytes * 1e3), a.objects
    moving.make_objects(root, n, size)
    with moving.cluster(root, 3, memory=str(max(n * size // 3, 32 << 20)), disk=str(4 * n * size)) as c:
        s = Steps(c, a)
        s.warm(n)
        jobs = moving.Jobs(c, size, a.pace / 1e3)
        jobs.while_they_read(lambda: time.sleep(2))
        first = s.gets()
        return [s.one_round(jobs, n) for _ in range(a.rounds)], first


def run(build, argv):
    a = moving.options("rebalance", objects=600, kilobytes=250.0).parse_args(argv)
    rounds, first = moving.with_s3(build, a, measure)
    sys.stdout.flush()

    def of(step, key):
        return [r[step][key] for r in rounds]
    slow = {s: median(of(s, "slowdown")) for s in STEPS}
    table(["step", "seconds", "least..most", "slowdown", "least..most", "baselines", "GETs per object"],
          [[s, "%.1f" % median(of(s, "seconds")), "%.1f..%.1f" % (min(of(s, "seconds")), max(of(s, "seconds"))),
            "%.3f" % slow[s], "%.3f..%.3f" % (min(of(s, "slowdown")), max(of(s, "slowdown"))), "%.3f" % max(of(s, "baselines")),
            "%.3f" % (max(of(s, "gets")) / a.objects)] for s in STEPS] +
          [["an epoch after", "", "", "", "", "", "%.3f" % (max(of("epoch", "gets")) / a.objects)]])
    gets = sum(sum(of(s, "gets")) for s in (*STEPS, "epoch"))
    return {"runs": len(rounds), "objects": a.objects, "object_bytes": int(a.kilobytes * 1e3), "first_gets": first,
            "gets_per_object": round(gets / a.objects, 4), "seconds": round(max(median(of(s, "seconds")) for s in STEPS), 2),
            "slowdown": round(max(slow.values()), 3),
            "slowdown_most": round(max(max(of(s, "slowdown")) for s in STEPS), 3),
            "baselines": round(max(max(of(s, "baselines")) for s in STEPS), 3),
            **{s + "_slowdown": round(slow[s], 3) for s in STEPS}, **{s + "_seconds": round(median(of(s, "seconds")), 2) for s in STEPS}}
