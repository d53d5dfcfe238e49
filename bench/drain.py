# SPDX-License-Identifier: Apache-2.0
"""What does it cost to drain a node? Seconds, bytes moved, slowdown of jobs, and GETs of the bucket.

    --gigabytes G    what the node has on its disk when it is drained (default 0.5)
    --megabytes M    of one object (default 1)
    --pace MS        a job computes so long on each sample (default 5)
    --rounds N       how often (default 3)
    --scratch DIR    where the disks of the nodes lie (default: where temporary files do)

Three nodes, each with memory for a tenth of the dataset and a disk tier for all of it, a manager, and a real S3 server
(versitygw), all on this machine. The node that is to be drained has the largest share by far (--capacity), and its copies on
disk. A job on each of the three nodes reads epochs in a shuffled order of its own. The node is drained while they read
(`dlcache node drain NAME --wait`). For the next round it owns its share again, and the others forget all they have. At last it
is stopped, and the jobs of the others read a whole epoch.

The slowdown compares the samples that the jobs read in a second while the node drains with those in `--baseline` seconds before
and after it. It is that of the median round; its spread is that of the rounds, and to be compared with that of the two baselines
of a round, between which nothing was moved. GETs are those of all nodes while the node drains, and in the last epoch.
"""
import argparse
import json
import os
import subprocess
import sys
import threading
import time

from common import median, program, scratch, table, wait_for

BUCKET, SHARE = "bench", 50  # the node owns 50 parts of 52


def make_objects(directory, n, size):
    """The bytes of all objects are those of one file: a bucket of 10 GB needs no such disk."""
    os.makedirs(directory)
    first = os.path.join(directory, "%06d.bin" % 0)
    with open(first, "wb") as f:
        f.write(os.urandom(size))
    for i in range(1, n):
        os.link(first, os.path.join(directory, "%06d.bin" % i))


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
    """All read, until they are told to end."""

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


def summary(rounds):
    def of(key):
        return [r[key] for r in rounds]
    return {"seconds": round(median(of("seconds")), 2), "bytes": int(median(of("bytes"))),
            "slowdown": round(median(of("slowdown")), 4), "slowdown_least": round(min(of("slowdown")), 4),
            "slowdown_most": round(max(of("slowdown")), 4), "baselines_differ": round(max(map(abs, of("baselines"))), 4),
            "runs": len(rounds), "samples_per_s": round(median(of("alone")), 2),
            "samples_per_s_draining": round(median(of("drained")), 2)}


def measure(root, a):
    import nodes
    import s3server

    size = int(a.megabytes * 1e6)
    n = int(a.gigabytes * 1e9 * (SHARE + 2) / SHARE / size)
    make_objects(os.path.join(root, BUCKET, "train"), n, size)

    class Cluster(nodes.Cluster):
        def bucket(self):
            return s3server.Real(root, BUCKET)

    with Cluster(2, "--capacity", "1GB", memory=str(max(n * size // 10, 64 << 20)), disk=str(4 * n * size)) as c:
        big = c.add("c", "--capacity", "%dGB" % SHARE)
        c.settle(3)
        c.credentials("ann", c.ann)
        c.register("train", f"s3://{BUCKET}/train/")

        def cli(*args):
            return json.loads(subprocess.run(
                [program(os.environ["DLCACHE_BUILD"]), *args, "--json", "--manager", "http://" + c.manager.address, "--token-file",
                 os.path.join(c.manager.dir, "admin.token")], check=True, capture_output=True).stdout)

        def gets():
            return sum(x.counter("bucket_gets") for x in c.nodes if x.process is not None)

        def chunks(x):
            return x.stat()["disk"]["chunks"]

        def handed_over(x):
            h = c.manager.ok("GET", "/v1/nodes/" + x.name).json["figures"].get("handover")
            return h is None or h["phase"] == "done" and h["samples"] == h["total"]

        def fill(again):
            """The big node has its share, and the others theirs and no more."""
            if again:
                cli("node", "undrain", "c")
                c.settle(3)
                wait_for(lambda: all(handed_over(x) for x in c.nodes), "hand-overs to end", timeout=600)
                for x in c.nodes[:2]:
                    x.cli("evict", f"s3://{BUCKET}/train/")
                wait_for(lambda: not sum(map(chunks, c.nodes[:2])), "the others to have nothing")
            cli("dataset", "warm", "train", "--tier", "disk")
            wait_for(lambda: sum(map(chunks, c.nodes)) >= n, "all of it on disk", timeout=600)

        def drain():
            begin = time.monotonic()
            node = cli("node", "drain", "c", "--wait")
            return time.monotonic() - begin, node["drained"]["bytes"]

        jobs, rounds, read = None, [], 0
        for k in range(a.rounds):
            fill(k > 0)
            jobs = jobs or Jobs(c, size, a.pace / 1e3)
            jobs.while_they_read(lambda: time.sleep(2))
            before = gets()
            first = jobs.while_they_read(lambda: time.sleep(a.baseline))[0]
            drained, (seconds, moved) = jobs.while_they_read(drain)
            last = jobs.while_they_read(lambda: time.sleep(a.baseline))[0]
            rounds.append({"seconds": seconds, "bytes": moved, "alone": (first + last) / 2, "drained": drained,
                           "slowdown": (first + last) / 2 / drained - 1, "baselines": first / last - 1})
            read += gets() - before
        here, before = big.counter("bucket_gets"), gets()
        jobs.jobs.pop().close()
        big.stop()
        for j in jobs.jobs:
            j.ask("steps", n=n, size=size, pace=0)
        return dict(summary(rounds), gets=read + gets() + here - before, samples=n, object_bytes=size, pace_s=a.pace / 1e3)


def run(build, argv):
    parser = argparse.ArgumentParser(prog="bench/run drain")
    parser.add_argument("--gigabytes", type=float, default=0.5)
    parser.add_argument("--megabytes", type=float, default=1)
    parser.add_argument("--pace", type=float, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scratch")
    parser.add_argument("--baseline", type=float, default=5, help=argparse.SUPPRESS)
    a = parser.parse_args(argv)
    subprocess.run(["tools/get-versitygw", build], check=True, stdout=subprocess.DEVNULL)
    with scratch(a.scratch) as home:
        os.environ.update(TEST_DIR=home, DLCACHE_BUILD=build, DLCACHE_PROGRAM=program(build),
                          PYTHONPATH=os.path.abspath("tests/lib"))
        r = measure(os.path.join(home, "s3"), a)
    sys.stdout.flush()
    table(["drained", "in, s", "MB/s", "jobs slow by", "least..most", "baselines differ by", "GETs", "rounds"],
          [["%.2f GB" % (r["bytes"] / 1e9), "%.1f" % r["seconds"], "%.0f" % (r["bytes"] / 1e6 / r["seconds"]),
            "%.1f %%" % (100 * r["slowdown"]), "%.1f..%.1f %%" % (100 * r["slowdown_least"], 100 * r["slowdown_most"]),
            "%.1f %%" % (100 * r["baselines_differ"]), r["gets"], r["runs"]]])
    return r
