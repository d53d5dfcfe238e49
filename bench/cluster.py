# SPDX-License-Identifier: Apache-2.0
"""Four nodes with memory for 30 % of a dataset each: bucket GETs per object, hits in epoch 2, bytes over the wire.

Four nodes, the manager, and a real S3 server (versitygw), each in a network namespace with an address of its own, all
on this machine. 8,000 objects of 100 KB. Two jobs read all of it for two epochs, each in a shuffled order of its own
that is known beforehand (the same two jobs in every round). A job has a reader, a process in C, on every node; each
reads its quarter of an epoch as fast as it gets it and looks at the first byte of each sample. No disk tier, no hedged
requests. Between the epochs all wait for each other, and the counters are read.

    gets_per_object       GETs of objects that the S3 server logged in both epochs, by object. Goal: 1.00
    epoch2_hit            1 - GETs logged in epoch 2 by samples read in epoch 2. Goal: 1.00, all from memory or peers
    samples_per_s         what a node's two readers get in epoch 2, mean of the nodes: what is left to read when the last
                          reader has done a quarter of its part, by the time until the last is through. What was fetched
                          ahead during the pause is used up by then
    single_samples_per_s  the same for a node alone: a cluster of one, memory for 30 % as well, both jobs with one reader
                          each that reads everything. What does not fit is read from the bucket again
    wire_bytes            what nodes sent each other in epoch 2, with all headers: what the interfaces of the nodes
                          received, less what those of the S3 server and the manager sent

Nodes share the processors of this machine, so a node of four has a quarter of them and the node alone has all: `all`
in the table, and the processor time per sample, say what a sample from a peer costs. GETs and hits are the worst of
all rounds, the rest are medians.

DLCACHE_BENCH_RUNS: rounds, 3 by default. DLCACHE_BENCH_OBJECTS: objects, 8000 by default.
"""
import contextlib
import json
import os
import subprocess

from common import cpu_seconds, make_files, median, program, scratch, spread, table

OBJECTS = int(os.environ.get("DLCACHE_BENCH_OBJECTS", "8000")) // 4 * 4  # ranks get the same number
ROUNDS = int(os.environ.get("DLCACHE_BENCH_RUNS", "3"))
SIZE, NODES, JOBS, SHARE, BUCKET = 100_000, 4, 2, 0.3, "bench"


class Reader:
    """One rank of a job, on a node."""

    def __init__(self, build, node, token, job, rank, world):
        argv = [os.path.join(build, "bench", "bench-consume"), "dlcache://train", node.socket, 2, 0, "follow", job, rank,
                world]
        self.process = subprocess.Popen(node.host.command(argv), env={**os.environ, "DLCACHE_TOKEN": token},
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def epoch(self):
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"bench: a reader ended with status {self.process.wait()}")
        return json.loads(line)

    def go_on(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def close(self):
        self.process.kill()
        self.process.communicate()


def object_gets(log):
    with open(log) as f:
        return sum(" s3_GetObject train/" in line for line in f)


class Mark:
    """Counters of everything at one moment."""

    def __init__(self, c, log, readers):
        received = [n.host.traffic()[0] for n in c.nodes]
        others = [c.net.host(name).traffic()[1] for name in ("s3", "m")]
        self.gets = object_gets(log)
        self.wire = sum(received) - sum(others)
        self.node_cpu = sum(cpu_seconds(n.process.pid) for n in c.nodes)
        self.reader_cpu = sum(cpu_seconds(r.process.pid) for r in readers)
        counters = [n.counters() for n in c.nodes]
        self.peer_bytes = sum(k["peer_bytes"] for k in counters)
        self.peer_hits = sum(k["peer_hits"] for k in counters)
        self.peer_misses = sum(k["peer_misses"] for k in counters)


def read_epoch(readers):
    got = [r.epoch() for r in readers]
    want = JOBS * sum(i % 256 for i in range(OBJECTS))
    if sum(g["sum"] for g in got) != want or sum(g["samples"] for g in got) != JOBS * OBJECTS:
        raise SystemExit(f"bench: not every sample was read once: {got}")
    return got


def read_after(t, reader):
    """Samples of an epoch that a reader got after a moment."""
    done = sum(min(max((t - a) / (b - a), 0), 1) for a, b in zip(reader["ticks"], reader["ticks"][1:]) if b > a)
    return reader["samples"] * (1 - done / (len(reader["ticks"]) - 1))


def rate_of(readers):
    """Samples per second of all, once the last has done a quarter."""
    begin, end = max(r["ticks"][len(r["ticks"]) // 4] for r in readers), max(r["ticks"][-1] for r in readers)
    return sum(read_after(begin, r) for r in readers) / (end - begin)


def measure(build, bucket_root, n):
    """A cluster of n nodes, from nothing: figures of its two epochs."""
    import dl
    import hosts
    import s3server

    class Cluster(hosts.Cluster):
        def bucket(self):
            return s3server.Real(bucket_root, BUCKET, host=self.place("s3"), flags=["--access-log", log])

    with scratch() as home, contextlib.ExitStack() as stack:
        dl.DIR, log = home, os.path.join(home, "access.log")
        c = stack.enter_context(Cluster(n, memory=str(int(OBJECTS * SIZE * SHARE))))
        c.credentials("ann", c.ann)
        c.register("train", f"s3://{BUCKET}/train/")
        readers = [Reader(build, node, c.ann, job, rank, n)
                   for job in range(1, JOBS + 1) for rank, node in enumerate(c.nodes)]
        for r in readers:
            stack.callback(r.close)
        first = read_epoch(readers)
        before = Mark(c, log, readers)
        for r in readers:
            r.go_on()
        second = read_epoch(readers)
        after = Mark(c, log, readers)
    samples = JOBS * OBJECTS
    return {
        "gets": after.gets / OBJECTS,
        "hit": 1 - (after.gets - before.gets) / samples,
        "rate": rate_of(second),
        "first_rate": samples / max(g["seconds"] for g in first),
        "wire": after.wire - before.wire,
        "peer_bytes": after.peer_bytes - before.peer_bytes,
        "peer_share": (after.peer_hits - before.peer_hits) / samples,
        "peer_misses": after.peer_misses,
        "node_us": (after.node_cpu - before.node_cpu) / samples * 1e6,
        "reader_us": (after.reader_cpu - before.reader_cpu) / samples * 1e6,
    }


def run(build):
    subprocess.run(["tools/get-versitygw", build], check=True, stdout=subprocess.DEVNULL)
    runs = {NODES: [], 1: []}
    with scratch() as home, scratch("/dev/shm") as memory:
        os.environ.update(TEST_DIR=home, DLCACHE_BUILD=build, DLCACHE_PROGRAM=program(build))
        root = os.path.join(memory, "s3")
        make_files(os.path.join(root, BUCKET, "train"), OBJECTS, SIZE)
        for _ in range(ROUNDS):
            for n, got in runs.items():
                got.append(measure(build, root, n))

    def of(n, key):
        return median([r[key] for r in runs[n]])

    def row(name, n):
        rates = [r["rate"] / n for r in runs[n]]
        return [name, f"{max(r['gets'] for r in runs[n]):.4f}", f"{min(r['hit'] for r in runs[n]):.4f}",
                f"{median(rates):,.0f}", spread(rates), f"{of(n, 'rate'):,.0f}", f"{of(n, 'first_rate'):,.0f}",
                f"{of(n, 'wire') / 1e6:,.0f}", f"{of(n, 'node_us'):.0f}"]

    table(["nodes", "GETs per object", "epoch-2 hits", "samples/s per node", "spread", "all", "all, epoch 1",
           "MB between nodes", "us of CPU per sample"], [row("four nodes", NODES), row("one alone", 1)])
    print(f"epoch 2 of the four: {100 * of(NODES, 'peer_share'):.0f} % of samples from a peer,"
          f" {of(NODES, 'wire') / max(of(NODES, 'peer_bytes'), 1):.3f} bytes on the wire for each of them;"
          f" peers asked in vain, both epochs: {max(r['peer_misses'] for r in runs[NODES])}")
    return {
        "nodes": NODES, "jobs": JOBS, "objects": OBJECTS, "object_bytes": SIZE, "memory_share": SHARE, "runs": ROUNDS,
        "gets_per_object": round(max(r["gets"] for r in runs[NODES]), 4),
        "epoch2_hit": round(min(r["hit"] for r in runs[NODES]), 4),
        "samples_per_s": round(of(NODES, "rate") / NODES, 1),
        "single_samples_per_s": round(of(1, "rate"), 1),
        "all_samples_per_s": round(of(NODES, "rate"), 1),
        "epoch1_all_samples_per_s": round(of(NODES, "first_rate"), 1),
        "single_epoch1_samples_per_s": round(of(1, "first_rate"), 1),
        "single_gets_per_object": round(of(1, "gets"), 4),
        "single_epoch2_hit": round(of(1, "hit"), 4),
        "wire_bytes": round(of(NODES, "wire")),
        "peer_bytes": round(of(NODES, "peer_bytes")),
        "peer_share": round(of(NODES, "peer_share"), 4),
        "peer_misses": max(r["peer_misses"] for r in runs[NODES]),
        "node_cpu_us_per_sample": round(of(NODES, "node_us"), 1),
        "single_node_cpu_us_per_sample": round(of(1, "node_us"), 1),
        "reader_cpu_us_per_sample": round(of(NODES, "reader_us"), 1),
    }
