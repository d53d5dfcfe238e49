# SPDX-License-Identifier: Apache-2.0
"""What does a restart of the daemon cost 16 readers: longest stall, memory, wrong bytes, failed reads?

Eight forked and eight spawned readers, and the idle process that started them, read a dataset that fits in memory,
from a bucket 5 ms away. The daemon is killed (SIGKILL): readers start the next one. Then it is stopped (SIGTERM):
this program starts the next one, as an upgrade does. A round ends when the new daemon holds the whole dataset and
every reader has read through it. longest_stall_s is the longest read of any reader in any round; memory_ratio is
the largest ratio of the shared memory of all daemons, dead ones included, after a round to that at the start;
readers_memory_ratio leaves out what only the idle process keeps. Goals: a stall of at most 2 s, memory at most 1.05, nothing wrong, nothing failed.

    --rounds N       kills, and stops (default 3)
    --readers N      of each kind (default 8)
"""
import argparse
import json
import multiprocessing
import os
import random
import re
import signal
import subprocess
import time

from common import make_files, median, program, scratch, spread, table, wait_for

N, SIZE, PAUSE = 400, 20_000, 0.004
BACK = 120  # seconds that a round may take
FIELDS = ("reads", "wrong", "failed", "longest", "since")


class Figures:
    """What one reader counts, in memory that it shares with this program."""

    def __init__(self, context):
        self._cells = context.RawArray("d", len(FIELDS))

    def __getitem__(self, field):
        return self._cells[FIELDS.index(field)]

    def __setitem__(self, field, value):
        self._cells[FIELDS.index(field)] = value

    def stall(self):
        """The longest read so far, one under way included."""
        since = self["since"]
        return max(self["longest"], time.monotonic() - since if since else 0)


def contents(seed=1):
    """What make_files() writes, by the number in the name."""
    block = random.Random(seed).randbytes(SIZE + N)
    return [i.to_bytes(8, "little") + block[i:i + SIZE - 8] for i in range(N)]


def read_on(ds, figures, end, seed):
    import dlcache

    want, rng = contents(), random.Random(seed)
    numbers = [int(key[-10:-4]) for key in ds.keys]
    while not end.is_set():
        i = rng.randrange(N)
        figures["since"] = start = time.monotonic()
        try:
            with ds[i] as view:
                figures["wrong"] += bytes(view) != want[numbers[i]]
        except dlcache.Error:
            figures["failed"] += 1
        figures["longest"] = max(figures["longest"], time.monotonic() - start)
        figures["since"] = 0
        figures["reads"] += 1
        time.sleep(PAUSE)


def mappings(smaps):
    """(inode, kind, resident bytes) of each mapping of a daemon's memory."""
    for inode, kind, rss in re.findall(r" (\d+) +/memfd:dlcache-(\w+).*\n(?:.*\n){0,4}?Rss: +(\d+) kB", smaps):
        yield int(inode), kind, int(rss) * 1024


class Memory:
    """Shared memory of daemons, by inode. Of a dead one we know what it last had, since clients can only read it; the
    memory of a session is its client's, whose page table has all of it."""

    def __init__(self):
        self._sizes = {}

    def _look(self, daemon):
        for fd in os.listdir(f"/proc/{daemon}/fd"):
            try:
                name = os.readlink(f"/proc/{daemon}/fd/{fd}")
                st = os.stat(f"/proc/{daemon}/fd/{fd}") if name.startswith("/memfd:dlcache") else None
            except FileNotFoundError:
                continue  # closed in between
            if st:
                self._sizes[st.st_ino] = st.st_blocks * 512
                yield st.st_ino

    def held(self, daemon, pids):
        """Bytes that this daemon and these processes keep."""
        sizes = {i: self._sizes[i] for i in self._look(daemon)}
        alive = set(sizes)
        for pid in pids:
            with open(f"/proc/{pid}/smaps") as f:
                for inode, name, rss in mappings(f.read()):
                    if inode not in alive:
                        sizes[inode] = rss if name == "session" else self._sizes.get(inode, 0)
        return sum(sizes.values())


class Daemon:
    """Whichever daemon answers at the socket."""

    def __init__(self, build, home):
        self.build, self.socket = build, os.path.join(home, "socket")
        os.environ.update(DLCACHE_SOCKET=self.socket, DLCACHE_DIR=os.path.join(home, "cache"),
                          DLCACHE_MEMORY="64MB", DLCACHE_DISK="1GB", DLCACHE_PROGRAM=program(build))

    def start(self):
        subprocess.run([program(self.build), "serve", "--background", "--quiet"], check=True)

    def stat(self):
        """None: none answers."""
        try:
            return json.loads(subprocess.run([program(self.build), "stat", "--json"], check=True,
                                             stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout)
        except (subprocess.CalledProcessError, ValueError):
            return None

    def pid(self):
        st = self.stat()
        return st["daemon"]["pid"] if st else 0

    def end(self, sig):
        """Ends the one that answers, and returns when it is gone."""
        pid = self.pid()
        os.kill(pid, sig)
        wait_for(lambda: not os.path.exists(f"/proc/{pid}"), "the daemon to end")
        return pid


class Readers:
    def __init__(self, url, each):
        import dlcache

        context = multiprocessing.get_context("spawn")
        self.ds = dlcache.open(url)
        bytes(self.ds[0])  # and no more: this process is idle from now on
        self.end, self.figures, self.children = context.Event(), [], []
        for k in range(2 * each):
            kind = multiprocessing.get_context("fork") if k % 2 else context
            self.figures.append(Figures(context))
            child = kind.Process(target=read_on, args=(self.ds, self.figures[-1], self.end, k), daemon=True)
            child.start()
            self.children.append(child)
        self.pids = [os.getpid()] + [c.pid for c in self.children]

    def read(self, n=20):
        """Until each of them has read n more."""
        before = [f["reads"] for f in self.figures]
        wait_for(lambda: all(f["reads"] >= b + n for f, b in zip(self.figures, before)), "the readers", BACK)

    def stop(self):
        self.end.set()
        for c in self.children:
            c.join(BACK)
        if any(c.exitcode != 0 for c in self.children):
            raise SystemExit("bench: a reader failed, see above")


def settled(daemon, readers, old=0):
    """Until a daemon holds all and every reader has a session there."""
    def is_settled():
        st = daemon.stat()
        return (st and st["daemon"]["pid"] != old and st["memory"]["residents"] == N
                and st["daemon"]["sessions"] >= len(readers.children))
    wait_for(is_settled, "the dataset in memory again", BACK)
    readers.read()


def one_round(daemon, readers, memory, sig):
    """(longest stall in seconds, seconds until all is cached again, bytes of memory, of them those that this
    idle process does not keep)."""
    for f in readers.figures:
        f["longest"] = 0
    memory.held(daemon.pid(), readers.pids)
    start = time.monotonic()
    old = daemon.end(sig)
    if sig == signal.SIGTERM:
        daemon.start()
    settled(daemon, readers, old)
    took = time.monotonic() - start
    return (max(f.stall() for f in readers.figures), took, memory.held(daemon.pid(), readers.pids),
            memory.held(daemon.pid(), readers.pids[1:]))


def measure(build, home, rounds, each):
    data, daemon, memory = os.path.join(home, "data"), Daemon(build, home), Memory()
    make_files(data, N, SIZE)
    daemon.start()
    readers = Readers(f"file://{data}?latency=5ms", each)
    try:
        settled(daemon, readers)
        before = memory.held(daemon.pid(), readers.pids)
        found = {sig: [one_round(daemon, readers, memory, sig) for _ in range(rounds)]
                 for sig in (signal.SIGKILL, signal.SIGTERM)}
        readers.stop()
        return before, found, readers.figures
    finally:
        for c in readers.children:
            c.kill()
        if daemon.pid():
            daemon.end(signal.SIGTERM)


def run(build, argv=()):
    parser = argparse.ArgumentParser(prog="bench/run restart")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--readers", type=int, default=8)
    args = parser.parse_args(argv)
    with scratch() as home:
        before, found, figures = measure(build, home, args.rounds, args.readers)
    columns = {sig: list(zip(*((s, again, held / before, mine / before) for s, again, held, mine in rounds)))
               for sig, rounds in found.items()}
    table(["daemon", "longest stall s", "of rounds", "cached again s", "of rounds", "memory ratio", "of readers"],
          [[sig.name, f"{max(c[0]):.2f}", spread(c[0]), f"{median(c[1]):.2f}", spread(c[1]), f"{max(c[2]):.2f}",
            f"{max(c[3]):.2f}"] for sig, c in columns.items()])
    result = {"longest_stall_s": round(max(max(c[0]) for c in columns.values()), 3),
              "memory_ratio": round(max(max(c[2]) for c in columns.values()), 3),
              "readers_memory_ratio": round(max(max(c[3]) for c in columns.values()), 3),
              "wrong": int(sum(f["wrong"] for f in figures)), "failed": int(sum(f["failed"] for f in figures)),
              "reads": int(sum(f["reads"] for f in figures))}
    for sig, c in columns.items():
        result[f"{sig.name.lower()}_again_s"] = round(median(c[1]), 3)
    return result
