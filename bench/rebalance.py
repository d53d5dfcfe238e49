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

A step is over when no node has copies left that are for another one. The slowdown of a step compares the samples that the jobs read
in a second during the step with those in `--baseline` seconds before and after it, when nothing moves: 1.05 is 5 % slower.
`slowdown` is that of the worst step, each the median of its rounds; `baselines` is the largest ratio of the two baselines of a
step: a machine on which it is above 1.05 cannot say whether a slowdown below it is one. `gets_per_object` are all GETs after the
first read, those of an epoch of each job after each round included, for each object.
"""
import argparse
import os
import subprocess
import sys
import time

from common import median, program, scratch, table, wait_for
from drain import BUCKET, Jobs, make_objects

STEPS = ("join", "drain", "undrain", "move", "back", "leave")


class Bench:
    def __init__(self, cluster, a, size):
        self.c, self.a, self.size = cluster, a, size
        self.rounds, self.gone = [], 0

    def cli(self, *args):
        done = subprocess.run([program(os.environ["DLCACHE_BUILD"]), *args, "--manager", "http://" + self.c.manager.address,
                               "--token-file", os.path.join(self.c.manager.dir, "admin.token")], capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError("%s: %s" % (" ".join(args), done.stderr or done.stdout))

    def gets(self):
        """Also of nodes that have left."""
        return self.gone + sum(x.counter("bucket_gets") for x in self.c.nodes if x.process is not None)

    def settled(self):
        """Until no node has copies left for another one."""
        def moved(x):
            h = self.c.manager.ok("GET", "/v1/nodes/" + x.name).json["figures"].get("handover")
            return h is None or h["phase"] == "done" and h["samples"] == h["total"]
        seen = {x.name: x.view()[0] for x in self.c.nodes}

        def all_moved():
            return all(moved(x) for x in self.c.nodes)
        wait_for(lambda: all(x.view()[0] >= seen[x.name] for x in self.c.nodes), "the views")
        time.sleep(1.5)  # two heartbeats: figures are those of this change
        wait_for(all_moved, "copies to be with their owners", timeout=600)

    # ---- the steps ----

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

    def moving(self):
        return "moving" in self.c.manager.ok("GET", "/v1/datasets/train").json

    def move(self):
        self.cli("dataset", "move", "train", "a", "b")
        wait_for(lambda: not self.moving(), "the move to end", timeout=600)
        self.settled()

    def back(self):
        self.cli("dataset", "move", "train", "--all")
        wait_for(lambda: not self.moving(), "the move to end", timeout=600)
        self.settled()

    def leave(self):
        d = self.c.nodes[3]
        self.cli("node", "drain", "d", "--wait")
        self.gone += d.counter("bucket_gets")
        d.stop()
        self.cli("node", "leave", "d")
        self.c.nodes.pop().__exit__(None, None, None)
        self.c.settle(3)

    def one_round(self, jobs, n):
        before, out = self.gets(), {}
        first = jobs.while_they_read(lambda: time.sleep(self.a.baseline))[0]
        for name in STEPS:
            def timed():
                begin = time.monotonic()
                getattr(self, name)()
                return time.monotonic() - begin
            during, seconds = jobs.while_they_read(timed)
            last = jobs.while_they_read(lambda: time.sleep(self.a.baseline))[0]
            out[name] = {"seconds": seconds, "slowdown": (first + last) / 2 / during, "baselines": max(first / last, last / first),
                         "gets": self.gets() - before}
            before, first = self.gets(), last
        for j in jobs.jobs:
            j.ask("steps", n=n, size=self.size, pace=0)
        out["epoch"] = {"gets": self.gets() - before}
        self.rounds.append(out)


def measure(root, a):
    import nodes
    import s3server

    size, n = int(a.kilobytes * 1e3), a.objects
    make_objects(os.path.join(root, BUCKET, "train"), n, size)

    class Cluster(nodes.Cluster):
        def bucket(self):
            return s3server.Real(root, BUCKET)

    with Cluster(3, memory=str(max(n * size // 3, 32 << 20)), disk=str(4 * n * size)) as c:
        c.credentials("ann", c.ann)
        c.register("train", f"s3://{BUCKET}/train/")
        b = Bench(c, a, size)
        b.cli("dataset", "warm", "train", "--tier", "disk")
        wait_for(lambda: sum(x.stat()["disk"]["chunks"] for x in c.nodes) >= n, "all of it on disk", timeout=600)
        jobs = Jobs(c, size, a.pace / 1e3)
        jobs.while_they_read(lambda: time.sleep(2))
        first = b.gets()
        for _ in range(a.rounds):
            b.one_round(jobs, n)
        return b.rounds, first


def run(build, argv):
    parser = argparse.ArgumentParser(prog="bench/run rebalance")
    parser.add_argument("--objects", type=int, default=600)
    parser.add_argument("--kilobytes", type=float, default=250)
    parser.add_argument("--pace", type=float, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scratch")
    parser.add_argument("--baseline", type=float, default=5, help=argparse.SUPPRESS)
    a = parser.parse_args(argv)
    subprocess.run(["tools/get-versitygw", build], check=True, stdout=subprocess.DEVNULL)
    with scratch(a.scratch) as home:
        os.environ.update(TEST_DIR=home, DLCACHE_BUILD=build, DLCACHE_PROGRAM=program(build),
                          PYTHONPATH=os.path.abspath("tests/lib"))
        rounds, first = measure(os.path.join(home, "s3"), a)
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
