# SPDX-License-Identifier: Apache-2.0
"""What the stores of metadata do: a million chunks registered and looked up, and the API while a job runs.

SQLite on this disk, one redis-server, a Redis Cluster of three; Redis keeps its file of changes, as it should with
metadata. In each a dataset of 1,000,000 chunks on four nodes, registered as heart-beats bring them: 2,000 of one node,
in the order of its catalog, then 2,000 of the next. Then a tenth of them again, in no order. 2,000 of each query (100 of
the page by state), from random places. Then reads through the API of a manager, see api_reads.py.

Environment: DLCACHE_BENCH_CHUNKS (1000000), DLCACHE_BENCH_STORES (sqlite,redis,cluster).
"""
import contextlib
import json
import os
import subprocess

import api_reads
import redisd
from common import scratch, table

CHUNKS = int(os.environ.get("DLCACHE_BENCH_CHUNKS", "1000000"))
STORES = os.environ.get("DLCACHE_BENCH_STORES", "sqlite,redis,cluster").split(",")

QUERIES = {
    "key": "one chunk by its key",
    "page": "100 chunks, any node",
    "node_page": "100 chunks of a node",
    "rare_state_page": "chunks in a state of 1 in 1,000",
    "sums": "sums of a dataset per node",
}
OF_DATASETS = {
    "get": "a dataset by name",
    "list": "100 datasets",
    "tenant_list": "100 datasets of a tenant",
    "count": "how many datasets there are",
    "change": "a dataset read and written",
    "event": "an event written",
    "events": "100 events of a tenant",
    "key": "one chunk by its key",
    "sums": "sums of a dataset per node",
}
BOUND_US = 50000  # the battery: no median of a query may exceed it at 10 million chunks


class Store:
    """An empty store: its URL, and how many bytes it takes."""

    def __init__(self, url, size):
        self.url, self.size = url, size


@contextlib.contextmanager
def store(build, name):
    with scratch(build) as directory:
        if name == "sqlite":
            path = os.path.join(directory, "manager.db")
            files = (path, path + "-wal")
            yield Store("sqlite:" + path, lambda: sum(os.path.getsize(f) for f in files if os.path.exists(f)))
        else:
            with (redisd.One if name == "redis" else redisd.Cluster)(dir=directory) as r:
                yield Store(r.url, lambda: sum(memory(r, i) for i in range(r.n)))


def memory(r, i):
    return int(r.ask(i, "INFO memory").split("used_memory:")[1].split()[0])


def names():
    if redisd.exists():
        return STORES
    print("there is no redis-server (tools/deps bench): SQLite alone")
    return [name for name in STORES if name == "sqlite"]


def measure(build, *args):
    out = subprocess.run([os.path.join(build, "bench", "bench-metadata"), *map(str, args)], check=True,
                         stdout=subprocess.PIPE).stdout
    return json.loads(out)


def of_chunks(build, s, n):
    before = s.size()
    result = measure(build, "chunks", s.url, n)
    result["bytes_per_chunk"] = round((s.size() - before) / n)
    result.update(measure(build, "drop", s.url))
    return result


def rows(results, queries):
    return [[text, *(f"{r[name + '_us']:,.0f} / {r[name + '_p99_us']:,.0f}" for r in results.values())]
            for name, text in queries.items()]


def show(results, title):
    table([title, *results],
          [["chunks registered per second", *(f"{r['rows_per_s']:,}" for r in results.values())],
           ["... a tenth again, in no order", *(f"{r['again_rows_per_s']:,}" for r in results.values())],
           *rows(results, QUERIES),
           ["bytes per chunk", *(f"{r['bytes_per_chunk']:,}" for r in results.values())],
           ["all of them forgotten, s", *(f"{r['drop_s']:.2f}" for r in results.values())]])


def show_api(results):
    table(["API while a job runs; us, median / p99", *results],
          [*rows(results, {**api_reads.READS, "all": "all of these"}),
           ["chunks registered meanwhile per second", *(f"{r['rows_per_s']:,}" for r in results.values())],
           ["samples read meanwhile per second", *(f"{r['job_reads_per_s']:,}" for r in results.values())]])


def of_api(build, s):
    measure(build, "datasets", s.url, api_reads.DATASETS, api_reads.EACH)
    return api_reads.measure(build, s.url)


def flat(results, infix=""):
    return {f"{name}_{infix}{key}": value for name, r in results.items() for key, value in r.items() if key != "store"}


def run(build):
    chunks, api = {}, {}
    for name in names():
        with store(build, name) as s:
            chunks[name] = of_chunks(build, s, CHUNKS)
        with store(build, name) as s:
            api[name] = of_api(build, s)
    show(chunks, "us, median / p99")
    show_api(api)
    return {**flat(chunks), **flat(api, "api_")}


def battery(build):
    """10,000 datasets of 100 chunks, and one of 10 million, in each store."""
    large, many = {}, {}
    for name in names():
        with store(build, name) as s:
            many[name] = measure(build, "datasets", s.url, 10000, 100)
            large[name] = of_chunks(build, s, 10 * 10**6)
    show(large, "10 million chunks; us, median / p99")
    table(["10,000 datasets; us, median / p99", *many],
          [["datasets with 100 chunks per second", *(f"{r['datasets_per_s']:,}" for r in many.values())],
           *rows(many, OF_DATASETS)])
    slow = [f"{name} {query}: {r[query + '_us']:.0f} us" for results, queries in ((large, QUERIES), (many, OF_DATASETS))
            for name, r in results.items() for query in queries if r[query + "_us"] > BOUND_US]
    if slow:
        raise SystemExit("bench/battery: too slow: " + ", ".join(slow))
    return {"large": large, "many": many}
