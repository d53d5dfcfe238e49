# SPDX-License-Identifier: Apache-2.0
"""What the stores of metadata do: registering a million chunks, finding one, pages, sums.

SQLite on this disk, one redis-server, a Redis Cluster of three, each with a dataset of 1,000,000 chunks on four
nodes, written in batches of 5,000 in the order in which they come from a bucket's many listings, then a tenth of
them again. 2,000 of each query, from random places. Redis keeps its file of changes, as it should with metadata.
"""
import contextlib
import json
import os
import subprocess

import redisd
from common import scratch, table

CHUNKS = int(os.environ.get("DLCACHE_BENCH_CHUNKS", "1000000"))

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
    "key": "one chunk by its key",
    "sums": "sums of a dataset per node",
}
PAGE_BOUND_US = 50000  # the battery: no median of a query may exceed it at 10 million chunks


@contextlib.contextmanager
def stores(build):
    """{name: URL}, while they run."""
    with scratch(build) as directory, contextlib.ExitStack() as stack:
        urls = {"sqlite": "sqlite:" + os.path.join(directory, "metadata.db")}
        if redisd.exists():
            urls["redis"] = stack.enter_context(redisd.One(dir=directory + "/one")).url
            urls["cluster"] = stack.enter_context(redisd.Cluster(dir=directory + "/cluster")).url
        else:
            print("there is no redis-server (tools/deps bench): SQLite alone")
        yield urls


def measure(build, *args):
    out = subprocess.run([os.path.join(build, "bench", "bench-metadata"), *map(str, args)], check=True,
                         stdout=subprocess.PIPE).stdout
    return json.loads(out)


def rows(results, queries):
    return [[text, *(f"{r[name + '_us']:,.0f} / {r[name + '_p99_us']:,.0f}" for r in results.values())]
            for name, text in queries.items()]


def show(results, title):
    table([title, *results],
          [["chunks registered per second", *(f"{r['rows_per_s']:,}" for r in results.values())],
           ["... a tenth of them again", *(f"{r['again_rows_per_s']:,}" for r in results.values())],
           *rows(results, QUERIES),
           ["all of them forgotten, s", *(f"{r['drop_s']:.2f}" for r in results.values())]])


def api_reads(build):
    """p99 of reads through the API while a job runs: {"api_read_p99_us": ...}, or {} where it cannot be measured."""
    return {}


def run(build):
    with stores(build) as urls:
        results = {name: measure(build, "chunks", url, CHUNKS) for name, url in urls.items()}
    show(results, "us, median / p99")
    flat = {f"{name}_{key}": value for name, r in results.items() for key, value in r.items() if key != "store"}
    return {**flat, **api_reads(build)}


def battery(build):
    """10,000 datasets of 100 chunks, and one of 10 million, in each store."""
    large, many = {}, {}
    with stores(build) as urls:
        for name, url in urls.items():
            many[name] = measure(build, "datasets", url, 10000, 100)
            large[name] = measure(build, "chunks", url, 10 * 10**6)
    show(large, "10 million chunks; us, median / p99")
    table(["10,000 datasets; us, median / p99", *many],
          [["datasets with 100 chunks per second", *(f"{r['datasets_per_s']:,}" for r in many.values())],
           *rows(many, OF_DATASETS)])
    slow = [f"{name} {query}: {r[query + '_us']:.0f} us" for name, r in large.items() for query in QUERIES
            if r[query + "_us"] > PAGE_BOUND_US]
    if slow:
        raise SystemExit("bench/battery: too slow at 10 million chunks: " + ", ".join(slow))
    return {"large": large, "many": many}
