# SPDX-License-Identifier: Apache-2.0
"""What does it cost to drain a node? Seconds, bytes moved, slowdown of jobs, and GETs of the bucket.

    --gigabytes G    what the node has on its disk when it is drained (default 0.5)
    --megabytes M    of one object (default 1)
    --pace MS        a job computes so long on each sample (default 5)

Three nodes, each with memory for a tenth of the dataset and a disk tier for all of it, a manager, and a real S3 server
(versitygw), all on this machine. The node that is to be drained has the largest share by far (--capacity), and its copies on
disk. A job on each of the three nodes reads epochs in a shuffled order of its own. The node is drained while they read
(`dlcache node drain NAME --wait`); then it is stopped, and the jobs of the others read a whole epoch.

The slowdown compares the samples that the jobs read in a second while the node drains with those before and after it, for as
long in all. GETs are those of all nodes from the beginning of the drain to the end of the last epoch.
"""
import argparse
import json
import os
import subprocess
import sys
import threading
import time

from common import program, scratch, table, wait_for

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

        cli("dataset", "warm", "train", "--tier", "disk")
        wait_for(lambda: sum(x.stat()["disk"]["chunks"] for x in c.nodes) == n, "all of it on disk")
        jobs = Jobs(c, size, a.pace / 1e3)
        jobs.while_they_read(lambda: time.sleep(2))
        before = gets()

        def drain():
            begin = time.monotonic()
            node = cli("node", "drain", "c", "--wait")
            return time.monotonic() - begin, node["drained"]["bytes"]
        alone = [jobs.while_they_read(lambda: time.sleep(a.baseline))[0]]
        drained, (seconds, moved) = jobs.while_they_read(drain)
        alone.append(jobs.while_they_read(lambda: time.sleep(a.baseline))[0])
        here = big.counter("bucket_gets")
        jobs.jobs.pop().close()
        big.stop()
        for j in jobs.jobs:
            j.ask("steps", n=n, size=size, pace=0)
        return {"seconds": round(seconds, 2), "bytes": moved, "slowdown": round(sum(alone) / 2 / drained - 1, 4),
                "gets": gets() + here - before, "samples": n, "object_bytes": size, "pace_s": a.pace / 1e3,
                "samples_per_s": round(sum(alone) / 2, 2), "samples_per_s_draining": round(drained, 2)}


def run(build, argv):
    parser = argparse.ArgumentParser(prog="bench/run drain")
    parser.add_argument("--gigabytes", type=float, default=0.5)
    parser.add_argument("--megabytes", type=float, default=1)
    parser.add_argument("--pace", type=float, default=5)
    parser.add_argument("--baseline", type=float, default=5, help=argparse.SUPPRESS)
    a = parser.parse_args(argv)
    subprocess.run(["tools/get-versitygw", build], check=True, stdout=subprocess.DEVNULL)
    with scratch() as home:
        os.environ.update(TEST_DIR=home, DLCACHE_BUILD=build, DLCACHE_PROGRAM=program(build),
                          PYTHONPATH=os.path.abspath("tests/lib"))
        r = measure(os.path.join(home, "s3"), a)
    sys.stdout.flush()
    table(["drained", "in, s", "MB/s", "jobs slow by", "GETs"],
          [["%.2f GB" % (r["bytes"] / 1e9), "%.1f" % r["seconds"], "%.0f" % (r["bytes"] / 1e6 / r["seconds"]),
            "%.1f %%" % (100 * r["slowdown"]), r["gets"]]])
    return r
