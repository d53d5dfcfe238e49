# SPDX-License-Identifier: Apache-2.0
"""What benchmarks of changes of owners share: a cluster at a real S3 server, jobs that read, and steps that are timed meanwhile.

    s = moving.Site(cluster, a)              a: what options() has parsed
    jobs = moving.Jobs(cluster, size, pace)
    s.step(jobs, change)                     {seconds, during, alone, slowdown, baselines, gets, result} of change()

The slowdown of a step compares the samples that one job reads in a second during the step with those in `--baseline` seconds
before and after it. `baselines` is the larger of the two by the smaller: where it is above 1.05, a slowdown of less is noise.
"""
import argparse
import os
import subprocess
import threading
import time

from common import program, scratch, wait_for

BUCKET = "bench"


def options(name, **defaults):
    """A parser of those that all have, and of these numbers with their defaults."""
    parser = argparse.ArgumentParser(prog="bench/run " + name)
    for key, value in dict(defaults, pace=5.0, rounds=3).items():
        parser.add_argument("--" + key, type=type(value), default=value)
    parser.add_argument("--scratch")
    parser.add_argument("--baseline", type=float, default=5, help=argparse.SUPPRESS)
    return parser


def with_s3(build, a, measure):
    """What measure(root, a) returns; root: the directory of the S3 server."""
    subprocess.run(["tools/get-versitygw", build], check=True, stdout=subprocess.DEVNULL)
    with scratch(a.scratch) as home:
        os.environ.update(TEST_DIR=home, DLCACHE_BUILD=build, DLCACHE_PROGRAM=program(build),
                          PYTHONPATH=os.path.abspath("tests/lib"))
        return measure(os.path.join(home, "s3"), a)


def make_objects(root, n, size):
    """The bytes of all objects are those of one file: a bucket of 10 GB needs no such disk."""
    directory = os.path.join(root, BUCKET, "train")
    os.makedirs(directory)
    first = os.path.join(directory, "%06d.bin" % 0)
    with open(first, "wb") as f:
        f.write(os.urandom(size))
    for i in range(1, n):
        os.link(first, os.path.join(directory, "%06d.bin" % i))


def cluster(root, n, *flags, **how):
    import nodes
    import s3server

    class Cluster(nodes.Cluster):
        def bucket(self):
            return s3server.Real(root, BUCKET)
    return Cluster(n, *flags, **how)


PROGRAM = r'''
import json, sys, time
import libdlc
for line in sys.stdin:
    ask = json.loads(line)
    if ask["op"] == "open":
        ds = libdlc.Dataset(ask["url"], spawn=False)
        ds.follow(kind=1, seed=int(sys.argv[1]), epochs=1000000)
        out = len(ds)
    else:
        n, begin = 0, time.monotonic()
        while n < ask["n"]:
            one = ds.next()
            if one is None:
                continue
            with one[1] as view:
                assert len(view.memory()) == ask["size"]
            n += 1
            time.sleep(ask["pace"])
        out = time.monotonic() - begin
    print(json.dumps({"ok": out}), flush=True)
'''


class Jobs:
    """One on each node. All read, until they are told to end."""

    def __init__(self, cluster, size, pace):
        import nodes

        class Job(nodes.Reader):
            pass
        self.jobs = []
        for k, node in enumerate(cluster.nodes):
            Job.PROGRAM = PROGRAM.replace("int(sys.argv[1])", str(k))
            self.jobs.append(Job(node, "dlcache://train", cluster.ann))
        cluster.readers += self.jobs
        self.how, self.ending, self.done = {"size": size, "pace": pace}, False, []

    def read(self, job, n=20):
        while not self.ending:
            self.done.append((n, job.ask("steps", n=n, **self.how)))

    def while_they_read(self, during):
        """Samples a second of one job, and what `during` returned."""
        self.ending, self.done = False, []
        threads = [threading.Thread(target=self.read, args=(j,)) for j in self.jobs]
        for t in threads:
            t.start()
        try:
            got = during()
        finally:
            self.ending = True
            for t in threads:
                t.join()
        return sum(n for n, _ in self.done) / sum(s for _, s in self.done), got

    def epoch(self, n):
        """Each reads as many samples as there are, as fast as it can."""
        for j in self.jobs:
            j.send("steps", n=n, size=self.how["size"], pace=0)
        for j in self.jobs:
            j.answer()


class Site:
    def __init__(self, cluster, a):
        self.c, self.a, self.gone, self.last = cluster, a, 0, None
        cluster.credentials("ann", cluster.ann)
        cluster.register("train", f"s3://{BUCKET}/train/")

    def cli(self, *args):
        done = subprocess.run([program(os.environ["DLCACHE_BUILD"]), *args, "--manager", "http://" + self.c.manager.address,
                               "--token-file", os.path.join(self.c.manager.dir, "admin.token")], capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError("%s: %s" % (" ".join(args), done.stderr or done.stdout))
        return done.stdout

    def gets(self):
        """Of the bucket, also by nodes that have left."""
        return self.gone + sum(x.counter("bucket_gets") for x in self.c.nodes if x.process is not None)

    def chunks(self, nodes=None):
        return sum(x.stat()["disk"]["chunks"] for x in (self.c.nodes if nodes is None else nodes))

    def warm(self, n):
        self.cli("dataset", "warm", "train", "--tier", "disk")
        wait_for(lambda: self.chunks() >= n, "all of it on disk", timeout=600)

    def settled(self):
        """Until no node has copies left for another one."""
        def moved(x):
            h = self.c.manager.ok("GET", "/v1/nodes/" + x.name).json["figures"].get("handover")
            return h is None or h["phase"] == "done" and h["samples"] == h["total"]
        time.sleep(1.5)  # two heartbeats: figures are those of this change
        wait_for(lambda: all(moved(x) for x in self.c.nodes), "copies to be with their owners", timeout=600)

    def baseline(self, jobs):
        self.last = jobs.while_they_read(lambda: time.sleep(self.a.baseline))[0]

    def step(self, jobs, change):
        def timed():
            begin = time.monotonic()
            return change(), time.monotonic() - begin
        before, first = self.gets(), self.last
        during, (result, seconds) = jobs.while_they_read(timed)
        self.baseline(jobs)
        alone = (first + self.last) / 2
        return {"seconds": seconds, "during": during, "alone": alone, "slowdown": alone / during, "result": result,
                "baselines": max(first / self.last, self.last / first), "gets": self.gets() - before}
