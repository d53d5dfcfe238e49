# SPDX-License-Identifier: Apache-2.0
"""Eight tenants on one node, one of them hostile: what the other seven get, beside what they get without it.

A manager, a node with memory for half of the data, and a reader for each of seven tenants, which reads random samples at
a fixed pace: hits, and misses that a bucket of files answers after 5 ms. The eighth tenant opens sessions without end, pins all it can, asks for prefetches of its
whole dataset over and over, and sends orders and descriptors that make no sense. Rounds with it and without it in turn.

    throughput_ratio   samples per second of the seven, with it over without it: 0.9 is the goal
    p99_ratio          the same of the 99th percentile of a read: 2 is the goal
    bytes_across       marks of other tenants in the memory of the clients, of all eight: 0

The hostile client has the lowest priority at the processors: how those are divided between processes is not the node's
to decide. What a view costs with eight tenants: bench/run hit --tenants 8.
"""
import json
import os
import subprocess
import sys

from common import median, scratch, table

TENANTS, SAMPLES, SIZE, PACE_MS, SECONDS, ROUNDS = 8, 300, 100_000, 4, 4, 3

READER = r'''
import json, random, sys, time
import libdlc
name, pace, seconds = sys.argv[1], float(sys.argv[2]) / 1000, float(sys.argv[3])
ds = libdlc.Dataset(name, spawn=False)
for i in range(len(ds)):
    ds.read(i)
print(json.dumps("ready"), flush=True)
for _ in sys.stdin:
    took, begin, at = [], time.perf_counter(), 0
    while time.perf_counter() - begin < seconds:
        t = time.perf_counter()
        with ds.get(random.randrange(len(ds))) as view:
            view.memory()[0]
        took.append(time.perf_counter() - t)
        at += pace
        time.sleep(max(begin + at - time.perf_counter(), 0))
    print(json.dumps({"rate": len(took) / (time.perf_counter() - begin), "took": took}), flush=True)
'''

HOSTILE = r'''
import os, socket, sys, threading
import libdlc
name, path = sys.argv[1:3]
os.nice(19)
ds = libdlc.Dataset(name, spawn=False)
print("\"ready\"", flush=True)
def pins():
    views = []
    while True:
        for i in range(len(ds)):
            try:
                views.append(ds.get(i))
            except libdlc.Error:  # all of its share is pinned
                pass
            if len(views) > 2000:
                views.pop(0).put()
def prefetches():
    while True:
        ds.prefetch(range(len(ds)))
def sessions():
    while True:
        try:
            with libdlc.Dataset(name, spawn=False) as other:
                other.read(0)
        except libdlc.Error:
            pass
def nonsense():
    while True:
        try:
            s = socket.socket(socket.AF_UNIX)
            s.settimeout(1)
            s.connect(path)
            text = b'{"op": "order", "list": 100000000}'
            head = b"dlc1" + len(text).to_bytes(4, "little") + (1).to_bytes(4, "little") + bytes(4)
            socket.send_fds(s, [head + text], [s.fileno()])
            s.recv(4096)
            s.close()
        except OSError:
            pass
for work in (pins, prefetches, sessions, nonsense):
    threading.Thread(target=work, daemon=True).start()
sys.stdin.read()
os._exit(0)
'''


class Client:
    def __init__(self, program, node, token, *args):
        self.process = subprocess.Popen([sys.executable, "-c", program, *map(str, args)], text=True, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, env=dict(os.environ, **node.env, DLCACHE_TOKEN=token))
        self.answer()

    def start(self):
        self.process.stdin.write("read\n")
        self.process.stdin.flush()

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit("bench: a client has ended")
        return json.loads(line)

    def close(self):
        self.process.stdin.close()
        self.process.wait(20)
        self.process.stdout.close()


def mark(k):
    return b"<of tenant %d: 8d1e5f>" % k


def read_all(readers):
    for r in readers:
        r.start()
    got = [r.answer() for r in readers]
    took = sorted(t for g in got for t in g["took"])
    return {"rate": sum(g["rate"] for g in got), "p99": took[int(len(took) * 0.99)]}


def across(clients):
    """How often a client has bytes of another tenant."""
    import search_memory
    found = 0
    for k, client in enumerate(clients):
        counts = search_memory.count(client.process.pid, *map(mark, range(TENANTS)))
        assert counts[k] > 0, "the search finds nothing"
        found += sum(counts) - counts[k]
    return found


def measure(c):
    import dl
    node, clients, rounds = c.nodes[0], [], []
    for k in range(TENANTS):
        token = c.manager.tenant("t%d" % k)
        os.mkdir(dl.path("t%d" % k))
        for i in range(SAMPLES):
            with open(dl.path("t%d/%05d" % (k, i)), "wb") as f:
                f.write(mark(k) * (SIZE // len(mark(k))))
        c.manager.ok("POST", "/v1/datasets", {"name": "d%d" % k, "url": dl.url("t%d" % k, latency="5ms"), "tenant": "t%d" % k})
        clients.append((node, token, "dlcache://d%d" % k))
    readers = [Client(READER, *clients[k], PACE_MS, SECONDS) for k in range(TENANTS)]
    seven = readers[:-1]
    try:
        bytes_across = across(readers)
        for _ in range(ROUNDS):
            alone = read_all(seven)
            hostile = Client(HOSTILE, *clients[-1], node.socket)
            beside = read_all(seven)
            bytes_across += across(seven + [hostile])
            hostile.close()
            rounds.append((alone, beside))
    finally:
        for r in readers:
            r.close()
    return rounds, bytes_across


def run(build):
    with scratch() as directory:
        os.environ.update(TEST_DIR=directory, DLCACHE_BUILD=build, HOME=directory,
                          DLCACHE_PROGRAM=os.path.join(build, "src/cli/dlcache"),
                          PYTHONPATH=os.pathsep.join(p for p in sys.path if p))
        import nodes
        with nodes.Cluster(1, memory=str(TENANTS * SAMPLES * SIZE // 2)) as c:
            rounds, bytes_across = measure(c)
    table(["round", "alone: samples/s", "p99 ms", "beside it: samples/s", "p99 ms"],
          [[k, f"{a['rate']:.0f}", f"{a['p99'] * 1e3:.2f}", f"{b['rate']:.0f}", f"{b['p99'] * 1e3:.2f}"]
           for k, (a, b) in enumerate(rounds)])
    return {"tenants": TENANTS, "throughput_ratio": round(median([b["rate"] / a["rate"] for a, b in rounds]), 3),
            "p99_ratio": round(median([b["p99"] / a["p99"] for a, b in rounds]), 2), "bytes_across": bytes_across}
