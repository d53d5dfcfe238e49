# SPDX-License-Identifier: Apache-2.0
"""What benchmarks share: a private directory, a daemon, data, tables, spread."""
import contextlib
import json
import multiprocessing
import os
import random
import shutil
import signal
import statistics
import subprocess
import tempfile
import time


def wait_for(condition, what, timeout=30.0):
    end = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > end:
            raise SystemExit(f"bench: waited {timeout:.0f} s for {what}")
        time.sleep(0.01)


@contextlib.contextmanager
def scratch(where=None):
    """A directory that goes away; in memory (tmpfs) with where='/dev/shm'."""
    path = tempfile.mkdtemp(prefix="dlb-", dir=where)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def program(build):
    return os.path.join(build, "src", "cli", "dlcache")


@contextlib.contextmanager
def process(argv, env=None):
    """A child that is ended when the block ends."""
    child = subprocess.Popen(argv, env=env, stdout=subprocess.DEVNULL)
    try:
        yield child
    finally:
        child.send_signal(signal.SIGTERM)
        try:
            child.wait(20)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


@contextlib.contextmanager
def daemon(build, directory, *flags, env=None):
    """`dlcache serve` in a directory of its own; gives its socket and process."""
    socket = os.path.join(directory, "socket")
    argv = [program(build), "serve", "--socket", socket, "--dir", os.path.join(directory, "cache"),
            *flags]
    with process(argv, env) as child:
        wait_for(lambda: os.path.exists(socket) or child.poll() is not None, "the daemon")
        if child.poll() is not None:
            raise SystemExit("bench: the daemon did not start")
        yield socket, child


@contextlib.contextmanager
def far(build, port, ms, jitter_ms=0, bytes_per_s=0):
    """A port that leads to a server at another port of this machine, ms away; 0 bytes_per_s: no
    limit."""
    argv = [os.path.join(build, "bench", "bench-delay-proxy"), str(port), str(ms), str(jitter_ms),
            str(bytes_per_s)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as proxy:
        try:
            yield int(proxy.stdout.readline())
        finally:
            proxy.terminate()


def apart(work, *args):
    """What work(*args) returns, done in a process of its own that is forked from this one."""
    return side_by_side([(work, *args)])[0]


def side_by_side(calls):
    """What each (work, argument...) returns, all at once, each in a process of its own."""
    context = multiprocessing.get_context("fork")
    children = []
    for work, *args in calls:
        here, there = context.Pipe(duplex=False)
        child = context.Process(target=lambda: there.send(work(*args)))
        child.start()
        there.close()
        children.append((work, here, child))
    results = []
    for work, here, child in children:
        try:
            results.append(here.recv())
        except EOFError:
            results.append(None)
        child.join()
        if child.exitcode != 0:
            raise SystemExit(f"bench: {work.__name__} failed (exit status {child.exitcode}), see "
                             "above")
    return results


def stat(build, socket):
    out = subprocess.run([program(build), "stat", "--json", "--socket", socket], check=True,
                         stdout=subprocess.PIPE).stdout
    return json.loads(out)


def cpu_seconds(pid):
    """User and system time of a process so far, all its threads."""
    fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def make_files(directory, count, size, seed=1):
    """count files of size random bytes, ten folders."""
    rng = random.Random(seed)
    block = rng.randbytes(size + count)
    for i in range(count):
        folder = os.path.join(directory, f"class-{i % 10}")
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, f"sample-{i:06}.bin"), "wb") as f:
            f.write(i.to_bytes(8, "little") + block[i:i + size - 8])


def median(values):
    return statistics.median(values)


def spread(values):
    """Half the distance between the quartiles, relative to the median, as '+-3 %'."""
    if len(values) < 4:
        return "" if len(values) < 2 else f"{min(values):.4g}..{max(values):.4g}"
    q = statistics.quantiles(values, n=4)
    return f"+-{100 * (q[2] - q[0]) / 2 / statistics.median(values):.1f} %"


def table(headings, rows):
    """Print rows of texts; numbers (cells that start with a digit) to the right."""
    widths = [max(len(str(r[i])) for r in [headings, *rows]) for i in range(len(headings))]
    for k, row in enumerate([headings, *rows]):
        cells = []
        for i, cell in enumerate(row):
            cell = str(cell)
            right = i > 0 and (k == 0 or cell[:1].isdigit() or cell[:1] in "+-")
            cells.append(cell.rjust(widths[i]) if right else cell.ljust(widths[i]))
        print("  ".join(cells).rstrip())
