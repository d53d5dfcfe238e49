# SPDX-License-Identifier: Apache-2.0
"""Reads through the API of a manager that has work to do.

A real manager on loopback, in whose store lie 1,000 datasets with 100 chunks each. A real node serves a job that reads
3,000 files of 20 KB in random order, 400 a second, with memory for a third of them: so its chunks come and go, and it
tells so with each heart-beat. A second node, played here, registers 2,000 new chunks five times a second, which is as
many as a heart-beat may bring. Meanwhile one client reads, one request after the other over one connection.
"""
import contextlib
import http.client
import json
import multiprocessing
import os
import random
import subprocess
import time

from common import make_files, program, scratch, wait_for

DATASETS, EACH = 1000, 100
FILES, SIZE, RATE = 3000, 20000, 400
ROWS, EVERY_S = 2000, 0.2
READ_S = float(os.environ.get("DLCACHE_BENCH_READ_S", "10"))

READS = {
    "list": "100 datasets",
    "show": "a dataset, with sums per node",
    "job": "the job, with its figures",
    "chunks": "100 chunks",
    "nodes": "all nodes",
}


class Client:
    """One connection that is kept."""

    def __init__(self, address, token):
        self.head = {"Authorization": "Bearer " + token, "Content-Type": "application/json"}
        self.conn = http.client.HTTPConnection(*address.split(":"), timeout=60)

    def __call__(self, method, path, body=None):
        self.conn.request(method, path, body, self.head)
        answer = self.conn.getresponse()
        raw = answer.read()
        if answer.status not in (200, 201):
            raise SystemExit(f"bench: {method} {path}: {answer.status} {raw[:300]!r}")
        return raw

    def timed(self, path):
        """(microseconds, the answer)"""
        start = time.perf_counter()
        raw = self("GET", path)
        return (time.perf_counter() - start) * 1e6, raw


def rows(first):
    return [["ann.large", f"train/n{i % 1000:08}/{i:09}.JPEG", f"{i:032x}", 20000 + i % 1000, 0.5, 1, "ACTIVE", 0]
            for i in range(first, first + ROWS)]


def register(address, token):
    """A node that tells of new chunks for as long as it lives, at its pace or as fast as it is heard."""
    tell, first, due = Client(address, token), 0, time.monotonic()
    while True:
        tell("POST", "/v1/nodes/b/heartbeat", json.dumps({"view": 0, "chunks": {"put": rows(first), "gone": []}}))
        first += ROWS
        due = max(due + EVERY_S, time.monotonic() - EVERY_S)
        time.sleep(max(0.0, due - time.monotonic()))


class Joined:
    """What nodes.Node wants to know of a cluster."""

    def __init__(self, m):
        self.node_token = os.path.join(m.dir, "node.token")
        self.addresses = lambda: "http://" + m.address


@contextlib.contextmanager
def cluster(build, url, directory):
    """(manager, its only tenant's token, the real node)"""
    os.environ.update(TEST_DIR=directory, DLCACHE_PROGRAM=program(build), DLCACHE_BUILD=build)
    import dl
    import manager
    import nodes

    dl.DIR = directory
    with manager.Manager("--job-ttl", "10m", store=url) as m:
        wait_for(m.leads, "a manager that leads")
        node = nodes.Node(Joined(m), "a", "--memory", str(FILES * SIZE // 3), "--disk", "0", "--capacity", "1GB")
        with node:
            wait_for(lambda: node.view()[1] == 1, "a node that has joined")
            m.ok("PUT", "/v1/nodes/b", {"address": "http://127.0.0.1:9", "capacity": 10 ** 9}, token="node")
            yield m, m.tenant("ann"), node


@contextlib.contextmanager
def running(*argv, env):
    with subprocess.Popen(argv, env={**os.environ, **env}, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as child:
        try:
            child.stdin.write(b"\n" * 1000)  # go on after each epoch
            child.stdin.flush()
            yield child
        finally:
            child.kill()


@contextlib.contextmanager
def at_work(build, m, ann, node, directory):
    """The id of the job, while it reads and chunks are registered."""
    files = os.path.join(directory, "files")
    make_files(files, FILES, SIZE)
    m.ok("POST", "/v1/datasets", {"name": "train", "url": f"file://{files}/", "tenant": "ann", "nodes": ["a"]})
    m.ok("POST", "/v1/datasets", {"name": "large", "url": "s3://bucket/large/", "tenant": "ann", "nodes": ["b"]})
    wait_for(lambda: m.ok("GET", "/v1/datasets/train").json["state"] == "ready", "a listing")
    job = m.ok("POST", "/v1/jobs", {"dataset": "train", "qos": {"epochs": 1000}}, token=ann).json["id"]
    wait_for(lambda: m.ok("GET", "/v1/jobs/" + job).json["state"] == "running", "a job that runs")
    teller = multiprocessing.get_context("fork").Process(target=register, args=(m.address, m.token("node")), daemon=True)
    with running(os.path.join(build, "bench", "bench-consume"), "dlcache://train", node.socket, "1000", str(RATE),
                 "follow", env={"DLCACHE_TOKEN": ann, "DLCACHE_JOB": job}) as reader:
        teller.start()
        try:
            wait_for(lambda: reads_of(m, job) > 0 and rows_of(m) > 0, "reads and registrations")
            yield job
            if reader.poll() is not None or not teller.is_alive():
                raise SystemExit("bench: the job or the registration ended while it was measured")
        finally:
            teller.kill()
            teller.join()


def reads_of(m, job):
    live = m.ok("GET", "/v1/jobs/" + job).json["live"]
    return sum(node["hits"] + node["misses"] for node in live.values())


def rows_of(m):
    return sum(n["chunks"] for n in m.ok("GET", "/v1/datasets/ann.large").json["cached"]["nodes"])


def read_on(admin, tenant, job):
    """{kind of read: [microseconds]}"""
    rng, after, us = random.Random(1), "", {kind: [] for kind in READS}
    end = time.monotonic() + READ_S
    while time.monotonic() < end:
        took = {"list": admin.timed(f"/v1/datasets?limit=100&after=dataset-{rng.randrange(DATASETS):06}"),
                "show": tenant.timed("/v1/datasets/large"),
                "job": tenant.timed("/v1/jobs/" + job),
                "chunks": tenant.timed("/v1/datasets/large/chunks?limit=100" + after),
                "nodes": admin.timed("/v1/nodes")}
        more = json.loads(took["chunks"][1]).get("next")
        after = "&after=" + more if more else ""
        for kind, (t, _) in took.items():
            us[kind].append(t)
    return us


def share(values, part):
    return round(sorted(values)[min(len(values) - 1, int(len(values) * part))], 1)


def measure(build, url):
    """Median and p99 of each kind of read and of all, and what went on meanwhile. The store has DATASETS datasets."""
    with scratch() as directory, cluster(build, url, directory) as (m, ann, node), \
            at_work(build, m, ann, node, directory) as job:
        before, start = (reads_of(m, job), rows_of(m)), time.monotonic()
        us = read_on(Client(m.address, m.token("admin")), Client(m.address, ann), job)
        seconds = time.monotonic() - start
        done = (reads_of(m, job) - before[0], rows_of(m) - before[1])
    us["all"] = [t for values in us.values() for t in values]
    out = {"reads": len(us["all"]), "job_reads_per_s": round(done[0] / seconds),
           "rows_per_s": round(done[1] / seconds)}
    for kind, values in us.items():
        out.update({f"{kind}_us": share(values, 0.5), f"{kind}_p99_us": share(values, 0.99)})
    if min(done) <= 0:
        raise SystemExit(f"bench: nothing went on while the API was read: {out}")
    return out
