# SPDX-License-Identifier: Apache-2.0
"""Jobs that share a dataset and are not in step: how often does a read need no fetch?

One daemon whose memory holds a fifth of the data (c = 0.2), a bucket 20 ms away, and one, two or three jobs,
each with a shuffle of its own (another seed), a pace of its own, and begun a third of an epoch after the one
before. Strict: each reads exactly its order. Substitution: relaxed orders, in which a sample that is not
resident changes places with one that is and that the job has not read in this epoch; each still comes once.

The hit ratio is 1 - GETs sent to the bucket / samples read, from the moment when every job has read its first
epoch until the first of them has read its last. Nobody can do better than 1 - (1 - c) / J: what is not
in memory when a round of J epochs begins must be fetched at least once. Goal: at least 0.54 with three jobs.
"""
import json
import os
import subprocess
import threading

from common import daemon, make_files, scratch, stat, table, wait_for

SAMPLES, SIZE, EPOCHS, SHARE = 8_000, 4_032, 4, 0.2
RATES = (2_000, 1_900, 2_100)


class Job:
    """One reader in a process of its own; `epochs` are those it has finished."""

    def __init__(self, build, url, socket, how, number):
        self.child = subprocess.Popen(
            [os.path.join(build, "bench", "bench-consume"), url, socket, str(EPOCHS), str(RATES[number]), how,
             str(100 + number), "0", "1"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.epochs = 0
        self.child.stdin.write("\n" * EPOCHS)
        self.child.stdin.close()
        self.thread = threading.Thread(target=self.watch)
        self.thread.start()

    def watch(self):
        for line in self.child.stdout:
            if json.loads(line)["samples"] != SAMPLES:
                raise SystemExit("bench: a job did not read each sample once")
            self.epochs += 1

    def end(self):
        self.thread.join()
        if self.child.wait() != 0:
            raise SystemExit("bench: a job failed, see above")


def figures(build, socket):
    """Samples read and GETs so far."""
    now = stat(build, socket)
    reads = sum(ds[name] for ds in now["datasets"] for name in ("hits", "misses", "bypasses"))
    return reads, now["counters"]["bucket_gets"]


def once(build, data, jobs, how):
    memory = 4096 + int(SHARE * SAMPLES) * (SIZE + -SIZE % 64)
    memory += -memory % 4096
    with scratch() as home, daemon(build, home, "--quiet", "--memory", str(memory), "--disk", "0",
                                   "--no-hedge") as (socket, _):
        running = []
        for number in range(jobs):
            due = number * SAMPLES // 3
            wait_for(lambda: number == 0 or figures(build, socket)[0] >= due, "the jobs before")
            running.append(Job(build, f"file://{data}?latency=20ms&jitter=5ms", socket, how, number))
        wait_for(lambda: all(job.epochs > 0 for job in running), "the first epochs", 300)
        began = figures(build, socket)
        wait_for(lambda: any(job.epochs == EPOCHS for job in running), "the last epochs", 300)
        ended = figures(build, socket)
        for job in running:
            job.end()
    return 1 - (ended[1] - began[1]) / (ended[0] - began[0])


def run(build):
    rows, result = [], {"hit": {}, "strict": {}, "bound": {}}
    with scratch("/dev/shm") as memory:
        data = os.path.join(memory, "data")
        make_files(data, SAMPLES, SIZE)
        for jobs in (1, 2, 3):
            strict, hit = once(build, data, jobs, "follow"), once(build, data, jobs, "relaxed")
            bound = 1 - (1 - SHARE) / jobs
            for name, value in (("hit", hit), ("strict", strict), ("bound", bound)):
                result[name][str(jobs)] = round(value, 4)
            rows.append([str(jobs), f"{strict:.3f}", f"{hit:.3f}", f"{bound:.3f}"])
    table(["jobs", "strict", "substitution", "bound"], rows)
    return result
