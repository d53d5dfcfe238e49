# SPDX-License-Identifier: Apache-2.0
"""Processor time of a sample from a peer, over TLS and in clear.

Two clusters of two nodes on loopback, one with TLS between its nodes, one with --peer-tls off. Node b has all samples of
100 KB in memory, node a has memory for a fifth: a reader there reads them in order, again and again, so each sample comes
from b. Rounds of both in turn. Processor time is that of both nodes together, user and system, by samples that came from
the peer: encryption on one side, decryption on the other, and what HTTP, sockets and copies cost in both cases.

    plain_cpu_us_per_sample, tls_cpu_us_per_sample   medians of the rounds
    tls_cpu_ratio                                    the second by the first
    plain_samples_per_s, tls_samples_per_s           of one reader that waits for each sample

DLCACHE_BENCH_RUNS: rounds, 5 by default.
"""
import contextlib
import os
import subprocess
import sys
import time

from common import cpu_seconds, median, program, scratch, spread, table

SAMPLES, SIZE, PASSES = 400, 100_000, 8
ROUNDS = int(os.environ.get("DLCACHE_BENCH_RUNS", "5"))
READER = r'''
import sys
import libdlc
ds = libdlc.Dataset("dlcache://train", spawn=False)
print("ready", flush=True)
for line in sys.stdin:
    for i in list(range(len(ds))) * int(line):
        with ds.get(i) as view:
            view.memory()[0]
    print("done", flush=True)
'''


class Pair:
    """Two nodes and a reader of the first."""

    def __init__(self, stack, home, certificate, *flags):
        import dl
        import nodes

        dl.DIR = home
        self.cluster = c = stack.enter_context(nodes.Cluster(0, *flags, certificate=certificate))
        for name, memory in (("a", SAMPLES * SIZE // 5), ("b", SAMPLES * SIZE * 3)):
            c.add(name, "--memory", str(memory))
        c.settle()
        c.put("train", SAMPLES, SIZE)
        c.credentials("ann", c.ann)
        c.register("train", "s3://data/train/", nodes=["b"])
        self.reader = subprocess.Popen([sys.executable, "-c", READER], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                       text=True, env=dict(os.environ, DLCACHE_TOKEN=c.ann, PYTHONPATH="tests/lib", **c.nodes[0].env))
        stack.callback(self.end)
        self.line()
        self.read(1)  # b reads the bucket

    def end(self):
        self.reader.kill()
        self.reader.communicate()

    def line(self):
        if not self.reader.stdout.readline():
            raise SystemExit(f"bench: the reader ended with status {self.reader.wait()}")

    def mark(self):
        return sum(cpu_seconds(n.process.pid) for n in self.cluster.nodes), \
            self.cluster.nodes[0].counters()["peer_hits"]

    def read(self, passes=PASSES):
        """(us of processor time per sample from the peer, samples per second)"""
        cpu, hits = self.mark()
        begin = time.perf_counter()
        self.reader.stdin.write(f"{passes}\n")
        self.reader.stdin.flush()
        self.line()
        seconds = time.perf_counter() - begin
        cpu2, hits2 = self.mark()
        if hits2 - hits < passes * SAMPLES * 0.9:
            raise SystemExit(f"bench: only {hits2 - hits} of {passes * SAMPLES} samples came from the peer")
        return (cpu2 - cpu) / (hits2 - hits) * 1e6, passes * SAMPLES / seconds


def run(build):
    with scratch() as home, contextlib.ExitStack() as stack:
        os.environ.update(TEST_DIR=home, DLCACHE_BUILD=build, DLCACHE_PROGRAM=program(build))
        import httpd

        certificate = httpd.make_tls().certificate
        pairs = {}
        for name, flags in (("plain", ("--peer-tls", "off")), ("tls", ())):
            where = os.path.join(home, name)
            os.mkdir(where)
            pairs[name] = Pair(stack, where, certificate, *flags)
        got = {name: [] for name in pairs}
        for _ in range(ROUNDS):
            for name, pair in pairs.items():
                got[name].append(pair.read())
    cpu = {name: median([r[0] for r in rows]) for name, rows in got.items()}
    rate = {name: median([r[1] for r in rows]) for name, rows in got.items()}
    table(["between peers", "us of processor time per sample", "spread", "samples/s"],
          [[name, f"{cpu[name]:.0f}", spread([r[0] for r in got[name]]), f"{rate[name]:,.0f}"] for name in got])
    return {
        "plain_cpu_us_per_sample": round(cpu["plain"], 1),
        "tls_cpu_us_per_sample": round(cpu["tls"], 1),
        "tls_cpu_ratio": round(cpu["tls"] / cpu["plain"], 3),
        "plain_samples_per_s": round(rate["plain"]),
        "tls_samples_per_s": round(rate["tls"]),
        "sample_bytes": SIZE,
    }
