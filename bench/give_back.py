# SPDX-License-Identifier: Apache-2.0
"""How soon is memory back at the machine when others need it, and how much of it?

The daemon lies in a memory cgroup of 1 GB, as in a container. 512 MB of samples are in memory, and eight processes
outside that have read all of it are idle; one of them holds a view. Then a process inside the group wants 640 MB. It
takes what is free but for 32 MB, and more as soon as there is more. The daemon is told nothing: it sees that the group
is short (src/cache/memory/limits.c), looking at it five times a second.

released_s is the time from the moment at which less was free than the daemon's reserve, a tenth, until that process had
all that it wanted. released_share is the share of the bytes that had to go that are back one second after that moment; extents count as long as the
daemon has them open or a process maps them. Goals: at most 1 s, and at least 0.95.

    --rounds N       (default 5)
"""
import argparse
import multiprocessing
import os
import re
import threading
import time

from common import daemon, make_files, median, scratch, spread, stat, table

N, SIZE, CLIENTS = 4096, 131_072, 8
MB = 1 << 20
LIMIT, WANTED, STEP = 1024 * MB, 640 * MB, 16 * MB
RESERVE, MARGIN = LIMIT // 10, 32 * MB  # the daemon leaves the one free; others leave the other


class Group:
    """A memory cgroup of either version."""

    def __init__(self):
        for base, files in (("/sys/fs/cgroup/memory", ("memory.limit_in_bytes", "memory.usage_in_bytes")),
                            ("/sys/fs/cgroup", ("memory.max", "memory.current"))):
            self.dir = os.path.join(base, f"dlcache-bench-{os.getpid()}")
            try:
                os.mkdir(self.dir)
            except OSError:
                continue
            self.limit, self.usage = files
            if os.path.exists(os.path.join(self.dir, self.limit)):
                return
            os.rmdir(self.dir)
        raise SystemExit("bench: this needs a memory cgroup of its own, and none can be made here: run it as root")

    def put(self, name, value):
        with open(os.path.join(self.dir, name), "w") as f:
            f.write(str(value))

    def free(self):
        with open(os.path.join(self.dir, self.usage)) as f:
            return LIMIT - int(f.read())

    def __enter__(self):
        self.put(self.limit, LIMIT)
        return self

    def __exit__(self, *_):
        until = time.monotonic() + 10
        while True:  # a process that has ended leaves a moment later
            try:
                os.rmdir(self.dir)
                return
            except OSError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.05)


def client(url, socket, ready, end, holds):
    import dlcache

    with dlcache.open(url, socket=socket, spawn=False) as ds:
        for _ in range(2):  # the second round maps what others brought
            for i in range(N):
                with ds[i] as view:
                    view[0]
        view = ds[N // 2] if holds else None
        ready.release()
        end.wait()
        if view is not None:
            view.release()


def hog(group, pipe, end):
    """Sends when the group is short, and when it has all that it wants."""
    group.put("cgroup.procs", os.getpid())
    held, have, short = [], 0, False
    while have < WANTED:
        free = group.free()
        if free < RESERVE and not short:
            pipe.send(time.monotonic())
            short = True
        step = min(free - MARGIN, WANTED - have, STEP)
        if step > 0:
            held.append(b"\1" * step)  # of its own: each page is written
            have += step
        else:
            time.sleep(0.005)
    pipe.send(time.monotonic())
    end.wait()


def extents(pids, server):
    """{inode: bytes} of the extents that the daemon has open or one of these processes maps."""
    sizes = {}
    for fd in os.listdir(f"/proc/{server}/fd"):
        try:
            if os.readlink(f"/proc/{server}/fd/{fd}").startswith("/memfd:dlcache-extent"):
                st = os.stat(f"/proc/{server}/fd/{fd}")
                sizes[st.st_ino] = st.st_blocks * 512
        except FileNotFoundError:
            continue  # closed in between
    for pid in pids:
        with open(f"/proc/{pid}/maps") as f:
            for start, stop, inode in re.findall(r"^(\w+)-(\w+) .* (\d+) +/memfd:dlcache-extent", f.read(), re.M):
                sizes.setdefault(int(inode), int(stop, 16) - int(start, 16))
    return sizes


def wait_for_room(build, socket):
    """The ceiling comes back after a round."""
    for _ in range(600):
        if stat(build, socket)["memory"]["ceiling"] >= N * SIZE * 5 // 4:
            return
        time.sleep(0.05)
    raise SystemExit("bench: the ceiling does not come back")


def one_round(build, url, socket, server, group):
    """Seconds, and the share that was back after one."""
    context = multiprocessing.get_context("spawn")
    ready, end = context.Semaphore(0), context.Event()
    here, there = context.Pipe(duplex=False)
    clients = [context.Process(target=client, args=(url, socket, ready, end, k == 0)) for k in range(CLIENTS)]
    wait_for_room(build, socket)
    try:
        for c in clients:
            c.start()
        for _ in clients:
            ready.acquire()
        pids, after = [c.pid for c in clients], []
        full = sum(extents(pids, server).values())
        clients.append(context.Process(target=hog, args=(group, there, end)))
        clients[-1].start()
        if not here.poll(30):
            raise SystemExit("bench: the group was not short of memory")
        short = here.recv()
        look = threading.Timer(max(short + 1 - time.monotonic(), 0), lambda: after.append(sum(extents(pids, server).values())))
        look.start()
        if not here.poll(60):
            raise SystemExit(f"bench: {sum(extents(pids, server).values())} of {full} bytes are held after 60 s")
        took = here.recv() - short
        look.join()
        must_go = full - sum(extents(pids, server).values())
    finally:
        end.set()
        for c in clients:
            c.join()
    return took, min((full - after[0]) / must_go, 1)


def run(build, argv):
    parser = argparse.ArgumentParser(prog="bench/run give-back")
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args(argv)
    with scratch("/dev/shm") as memory, scratch() as home, Group() as group:
        data = os.path.join(memory, "data")
        make_files(data, N, SIZE)
        with daemon(build, home, "--memory", "1GB", "--disk", "0") as (socket, server):
            group.put("cgroup.procs", server.pid)
            rounds = [one_round(build, f"file://{data}", socket, server.pid, group) for _ in range(args.rounds)]
    times, shares = zip(*rounds)
    table(["", "median", "spread"], [["s until others have it", f"{median(times):.3f}", spread(times)],
                                     ["share after 1 s", f"{median(shares):.3f}", spread(shares)]])
    return {"released_s": round(median(times), 3), "released_share": round(median(shares), 3)}
