# SPDX-License-Identifier: Apache-2.0
"""How soon is memory back at the machine when the daemon must give it up, and how much of it?

512 MB of samples are in memory, and eight processes that have read all of it are idle; one of them holds a view. The
tier is emptied (`dlcache evict`), which is what a lowered ceiling does to the samples above it. Extents count as long
as the daemon has them open or a process maps them. released_s is the time until no more is held than the extent under
the view and its neighbours, from the moment the command was started; released_share is the share of the bytes that
are back one second after that moment. Goals: at most 1 s, and at least 0.95.

    --rounds N       (default 5)
"""
import argparse
import multiprocessing
import os
import re
import subprocess
import time

from common import daemon, make_files, median, program, scratch, spread, table

N, SIZE, CLIENTS = 4096, 131_072, 8
EXTENT = 4 << 20  # 1/256 of --memory


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


def one_round(build, url, socket, server):
    """Seconds, and the share that was back after one."""
    context = multiprocessing.get_context("spawn")
    ready, end = context.Semaphore(0), context.Event()
    clients = [context.Process(target=client, args=(url, socket, ready, end, k == 0)) for k in range(CLIENTS)]
    for c in clients:
        c.start()
    for _ in clients:
        ready.acquire()
    pids = [c.pid for c in clients]
    full = sum(extents(pids, server).values())
    start, share, took = time.monotonic(), None, None
    subprocess.run([program(build), "evict", "--all", "--socket", socket], check=True, stdout=subprocess.DEVNULL)
    while took is None or share is None:
        left, now = sum(extents(pids, server).values()), time.monotonic() - start
        if took is None and left <= 3 * EXTENT:
            took = now
        if share is None and (now >= 1 or took is not None):
            share = 1 - left / full
        if now > 30:
            raise SystemExit(f"bench: {left} of {full} bytes are held after 30 s")
        time.sleep(0.005)
    end.set()
    for c in clients:
        c.join()
    return took, share


def run(build, argv):
    parser = argparse.ArgumentParser(prog="bench/run give-back")
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args(argv)
    with scratch("/dev/shm") as memory, scratch() as home:
        data = os.path.join(memory, "data")
        make_files(data, N, SIZE)
        with daemon(build, home, "--memory", "1GB", "--disk", "0") as (socket, server):
            rounds = [one_round(build, f"file://{data}", socket, server.pid) for _ in range(args.rounds)]
    times, shares = zip(*rounds)
    table(["", "median", "spread"], [["s until it is back", f"{median(times):.3f}", spread(times)],
                                     ["share after 1 s", f"{median(shares):.3f}", spread(shares)]])
    return {"released_s": round(median(times), 3), "released_share": round(median(shares), 3)}
