# SPDX-License-Identifier: Apache-2.0
"""How much slower are one dataset's misses while another one, the disk or a client misbehaves?

Four threads read dataset Y once, each sample a miss from a bucket 20 ms away, while, one after the
other: X's bucket takes requests and answers none; eight datasets of archives are opened at 3 s per
request; each write to the disk tier takes 100 ms; the file system does not say how much is free; a
client floods its ring; a client is stopped in the middle of its reads. Each case has a daemon and a
Y of its own. quiet_p99_ms is the 99th percentile when nothing else happens, *_ratio what it is in a
case relative to that, each the lower of two rounds, since others may use the machine. Goal: every ratio
at most 3.
"""
import contextlib
import os
import signal
import subprocess
import sys
import tarfile
import threading
import time

from common import scratch, table

N, SIZE, THREADS, LATENCY, ROUNDS = 300, 20_000, 4, "20ms", 2

READ_X = """
import sys, threading, libdlc
ds = libdlc.Dataset(sys.argv[1], spawn=False)
n = len(ds)
ds.prefetch(range(min(n, 4000)))
def work(k):
    i = k
    while True:
        ds.read(i % n)
        i += 8
for k in range(8):
    threading.Thread(target=work, args=(k,), daemon=True).start()
print("ready", flush=True)
threading.Event().wait()
"""
FLOOD_X = """
import sys, libdlc
ds = libdlc.Dataset(sys.argv[1], spawn=False)
n = len(ds)
print("ready", flush=True)
while True:
    ds.prefetch([i % n for i in range(600)])
"""
OPEN_X = """
import sys, threading, libdlc
def work(url):
    libdlc.Dataset(url, spawn=False, timeout_ms=60000).close()
threads = [threading.Thread(target=work, args=(url,)) for url in sys.argv[1].split()]
for t in threads:
    t.start()
print("ready", flush=True)
for t in threads:
    t.join()
"""


@contextlib.contextmanager
def client(program, url, d):
    """A process of its own that does something with X, from when it is ready on."""
    env = dict(os.environ, **d.env)
    child = subprocess.Popen([sys.executable, "-c", program, url], stdout=subprocess.PIPE, text=True, env=env)
    try:
        if child.stdout.readline() != "ready\n":
            raise SystemExit("bench: a client of X did not start")
        yield child
    finally:
        child.kill()
        child.wait()


def misses(libdlc, url, d):
    """Seconds of each miss, sorted."""
    took, at, lock = [], iter(range(N)), threading.Lock()
    with libdlc.Dataset(url, daemon=d) as ds:
        def work():
            while True:
                with lock:
                    i = next(at, None)
                if i is None:
                    return
                start = time.monotonic()
                ds.read(i)
                took.append(time.monotonic() - start)

        threads = [threading.Thread(target=work) for _ in range(THREADS)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    return sorted(took)


@contextlib.contextmanager
def trouble(case, dl, d, disk):
    """What goes wrong in a case, for as long as the block lasts."""
    if case == "bucket_hangs":
        with client(READ_X, "s3://data/x/", d):
            yield
    elif case == "archives":
        urls = [dl.url("archives%d" % k, latency="3s") for k in range(8)]
        with client(OPEN_X, " ".join(urls), d):
            yield
    elif case in ("slow_writes", "statvfs_hangs"):
        call = "pwrite" if case == "slow_writes" else "statvfs"
        disk.set(call, 100 if case == "slow_writes" else "hang")
        try:
            yield
        finally:
            disk.clear(call)
    elif case == "flood":
        with client(FLOOD_X, dl.url("x"), d):
            yield
    elif case == "stopped_client":
        with client(READ_X, dl.url("x"), d) as child:
            child.send_signal(signal.SIGSTOP)
            yield
    else:
        yield


CASES = ("quiet", "bucket_hangs", "archives", "slow_writes", "statvfs_hangs", "flood", "stopped_client")


def measure(case, k, dl, libdlc, s3, disk):
    """p99 in milliseconds."""
    env = dict(disk.env, **s3.env())
    flags = ("--memory", "256MB", "--stall-timeout", "10m")
    with dl.Daemon(*flags, name="%s%d" % (case, k), env=env) as d, trouble(case, dl, d, disk):
        took = misses(libdlc, dl.url("y", latency=LATENCY), d)
    return 1000 * took[int(len(took) * 0.99)]


def run(build):
    with scratch() as directory:
        os.environ.update(TEST_DIR=directory, DLCACHE_BUILD=build, HOME=directory,
                          DLCACHE_PROGRAM=os.path.join(build, "src/cli/dlcache"),
                          PYTHONPATH=os.pathsep.join(p for p in sys.path if p))
        import dl
        import faulty
        import libdlc
        import slowfs
        dl.dataset("x", 2000, size=SIZE)
        dl.dataset("y", N, size=SIZE, seed=1)
        for k in range(8):
            os.mkdir(dl.path("archives%d" % k))
            for j in range(3):
                with tarfile.open(dl.path("archives%d/%d.tar" % (k, j)), "w") as t:
                    t.add(__file__, "member.bin")
        disk, p99 = slowfs.Disk(), {}
        with faulty.S3() as s3:
            for i in range(2000):
                s3.put("x/%05d" % i, b"x" * 1000)
            s3.fault("stall", op="get", at=50)
            for k in range(ROUNDS):
                for case in CASES:
                    p99[case] = min(p99.get(case, 1e9), measure(case, k, dl, libdlc, s3, disk))
    table(["case", "p99 ms", "ratio"], [[c, f"{p:.1f}", f"{p / p99['quiet']:.2f}"] for c, p in p99.items()])
    result = {"quiet_p99_ms": round(p99["quiet"], 2)}
    result.update({c + "_ratio": round(p99[c] / p99["quiet"], 2) for c in CASES[1:]})
    return result
