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

The slowdown (moving.py) is that of the median round; its spread is that of the rounds, and to be compared with that of the two
baselines of a round, between which nothing was moved. GETs are those of all nodes while the node drains, and in the last epoch.
"""
import json
import sys
import time

import moving
from common import median, table, wait_for

SHARE = 50  # the node owns 50 parts of 52


def summary(rounds):
    def of(key):
        return [r[key] for r in rounds]
    slow = [x - 1 for x in of("slowdown")]
    return {"seconds": round(median(of("seconds")), 2), "bytes": int(median(of("result"))),
            "slowdown": round(median(slow), 4), "slowdown_least": round(min(slow), 4), "slowdown_most": round(max(slow), 4),
            "baselines_differ": round(max(of("baselines")) - 1, 4), "runs": len(rounds),
            "samples_per_s": round(median(of("alone")), 2), "samples_per_s_draining": round(median(of("during")), 2)}


def measure(root, a):
    size = int(a.megabytes * 1e6)
    n = int(a.gigabytes * 1e9 * (SHARE + 2) / SHARE / size)
    moving.make_objects(root, n, size)
    with moving.cluster(root, 2, "--capacity", "1GB", memory=str(max(n * size // 10, 64 << 20)), disk=str(4 * n * size)) as c:
        big, others = c.add("c", "--capacity", "%dGB" % SHARE), c.nodes[:2]
        c.settle(3)
        s = moving.Site(c, a)

        def fill_again():
            """The big node has its share, and the others theirs and no more."""
            s.cli("node", "undrain", "c")
            c.settle(3)
            s.settled()
            for x in others:
                x.cli("evict", f"s3://{moving.BUCKET}/train/")
            wait_for(lambda: not s.chunks(others), "the others to have nothing")

        def drain():
            return json.loads(s.cli("node", "drain", "c", "--wait", "--json"))["drained"]["bytes"]

        s.warm(n)
        jobs, rounds = moving.Jobs(c, size, a.pace / 1e3), []
        for k in range(a.rounds):
            if k > 0:
                fill_again()
                s.warm(n)
            jobs.while_they_read(lambda: time.sleep(2))
            s.baseline(jobs)
            rounds.append(s.step(jobs, drain))
        before = s.gets()
        jobs.jobs.pop().close()
        s.gone = big.counter("bucket_gets")
        big.stop()
        jobs.epoch(n)
        return dict(summary(rounds), gets=sum(r["gets"] for r in rounds) + s.gets() - before, samples=n, object_bytes=size,
                    pace_s=a.pace / 1e3)


def run(build, argv):
    a = moving.options("drain", gigabytes=0.5, megabytes=1.0).parse_args(argv)
    r = moving.with_s3(build, a, measure)
    sys.stdout.flush()
    table(["drained", "in, s", "MB/s", "jobs slow by", "least..most", "baselines differ by", "GETs", "rounds"],
          [["%.2f GB" % (r["bytes"] / 1e9), "%.1f" % r["seconds"], "%.0f" % (r["bytes"] / 1e6 / r["seconds"]),
            "%.1f %%" % (100 * r["slowdown"]), "%.1f..%.1f %%" % (100 * r["slowdown_least"], 100 * r["slowdown_most"]),
            "%.1f %%" % (100 * r["baselines_differ"]), r["gets"], r["runs"]]])
    return r
