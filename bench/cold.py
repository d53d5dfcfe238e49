# SPDX-License-Identifier: Apache-2.0
"""First reads from a bucket: share of a limited link at 30 and 100 ms, and signed GETs per CPU second.

10,000 objects of 100 KB, each read once. dlcache reads a bucket with the latency and a limit of 400 MB/s,
and a real S3 server on loopback; boto3, with the thread count that served it best, reads the S3 server
behind a proxy that adds 30 ms (and no limit), and directly. Goals: 95 % of the limit at both latencies; at
least 8,000 signed GETs per CPU second of the client. The client is the bucket engine, which reads into
memory as boto3 does; the whole way, into fresh shared memory and to a second process, stands beside it.
"""
import json
import os
import resource
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from common import cpu_seconds, daemon, far, make_files, median, scratch, spread, table

OBJECTS, SIZE, LIMIT, ROUNDS = 10_000, 100_000, 400_000_000, 5
THREADS = (8, 16, 32, 64, 128)
BUCKET = "bench"


def read_all(build, url, *flags, env=None):
    """One cold read in a daemon of its own: (MB/s, objects per CPU second of daemon and client)."""
    with scratch() as home, daemon(build, home, "--memory", "2GB", "--disk", "0", *flags,
                                   env=env) as (socket, child):
        before = cpu_seconds(child.pid)
        out = subprocess.run([os.path.join(build, "bench", "bench-cold"), url, socket], check=True,
                             env=env, stdout=subprocess.PIPE).stdout
        used = cpu_seconds(child.pid) - before
    r = json.loads(out)
    return r["bytes"] / r["seconds"] / 1e6, r["objects"] / (used + r["cpu_s"])


def engine(build, env):
    """Signed GETs per CPU second of the bucket engine alone."""
    out = subprocess.run([os.path.join(build, "bench", "bench-bucket-read"), f"s3://{BUCKET}/"],
                         check=True, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
    r = json.loads(out)
    return r["MBps"], r["objects_per_cpu_s"]


def boto3_main(endpoint, threads, count):
    """In a process of its own: read `count` objects with `threads` threads, print the figures."""
    import boto3
    from botocore.config import Config

    client = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1",
                          config=Config(max_pool_connections=threads,
                                        s3={"addressing_style": "path"}))
    keys = []
    for page in client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET):
        keys += [o["Key"] for o in page.get("Contents", [])]
    keys = keys[:count]

    def get(key):
        return len(client.get_object(Bucket=BUCKET, Key=key)["Body"].read())

    def cpu():
        u = resource.getrusage(resource.RUSAGE_SELF)
        return u.ru_utime + u.ru_stime

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(get, keys[:threads * 2]))  # connections are made outside the clock
        start, cpu_start = time.monotonic(), cpu()
        total = sum(pool.map(get, keys))
        seconds, used = time.monotonic() - start, cpu() - cpu_start
    print(json.dumps({"MBps": total / seconds / 1e6, "per_cpu_s": len(keys) / used}))


def boto3_best(endpoint, env):
    """(threads, MB/s, objects per CPU second) of the thread count that was fastest."""
    best = (0, 0.0, 0.0)
    for threads in THREADS:
        out = subprocess.run([sys.executable, os.path.abspath(__file__), endpoint, str(threads), "2000"],
                             check=True, env=env, stdout=subprocess.PIPE).stdout
        r = json.loads(out)
        if r["MBps"] > best[1]:
            best = (threads, r["MBps"], r["per_cpu_s"])
    return best


def upload(server, directory):
    """The files, through the API, so that they are objects like any other."""
    client = server.client()

    def put(path):
        with open(path, "rb") as f:
            client.put_object(Bucket=BUCKET, Key=os.path.relpath(path, directory), Body=f.read())

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(put, (os.path.join(d, f) for d, _, files in os.walk(directory) for f in files)))


def run(build):
    os.environ["DLCACHE_BUILD"] = build
    subprocess.run(["tools/get-versitygw", build], check=True, stdout=subprocess.DEVNULL)
    import s3server

    rows, shares, per_cpu = [], {}, {}
    with scratch("/dev/shm") as memory:
        data = os.path.join(memory, "data")
        make_files(data, OBJECTS, SIZE)
        for ms in (30, 100):
            url = f"file://{data}?latency={ms}ms&bandwidth={LIMIT // 1_000_000}MB"
            got = [read_all(build, url) for _ in range(ROUNDS)]
            shares[ms] = median([m for m, _ in got])
            rows.append([f"dlcache, {ms} ms, limit {LIMIT // 1_000_000} MB/s", f"{shares[ms]:.0f}",
                         spread([m for m, _ in got]), f"{100 * shares[ms] * 1e6 / LIMIT:.1f} %", ""])
        with s3server.Real(os.path.join(memory, "s3"), BUCKET) as server:
            env = {**os.environ, **server.env()}
            upload(server, data)
            for name, read in (("bucket engine", engine),
                               ("whole way", lambda b, e: read_all(b, f"s3://{BUCKET}/", env=e))):
                got = [read(build, env) for _ in range(ROUNDS)]
                per_cpu[name] = median([c for _, c in got])
                rows.append([f"dlcache, S3 server on loopback, {name}",
                             f"{median([m for m, _ in got]):.0f}", spread([m for m, _ in got]), "",
                             f"{per_cpu[name]:.0f}"])
            threads, mbps, theirs = boto3_best(server.endpoint, env)
            rows.append([f"boto3, S3 server on loopback, {threads} threads", f"{mbps:.0f}", "", "",
                         f"{theirs:.0f}"])
            with far(build, server.port, 30) as port:
                endpoint = f"http://127.0.0.1:{port}"
                threads, boto_far, _ = boto3_best(endpoint, env)
                rows.append([f"boto3, S3 server, 30 ms, {threads} threads", f"{boto_far:.0f}", "", "", ""])
                far_env = {**env, "AWS_ENDPOINT_URL": endpoint}
                s3_far = [read_all(build, f"s3://{BUCKET}/", env=far_env)[0] for _ in range(ROUNDS)]
                rows.append(["dlcache, S3 server, 30 ms", f"{median(s3_far):.0f}", spread(s3_far), "", ""])
    table(["cold read", "MB/s", "spread", "of the limit", "objects per CPU s"], rows)
    return {
        "cap_MBps": LIMIT / 1e6,
        "dlcache_30ms_MBps": round(shares[30], 1),
        "dlcache_100ms_MBps": round(shares[100], 1),
        "boto3_30ms_MBps": round(boto_far, 1),
        "dlcache_s3_30ms_MBps": round(median(s3_far), 1),
        "s3_objects_per_cpu_s": round(per_cpu["bucket engine"]),
        "daemon_objects_per_cpu_s": round(per_cpu["whole way"]),
        "boto3_objects_per_cpu_s": round(theirs),
    }


if __name__ == "__main__":
    boto3_main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
