# SPDX-License-Identifier: Apache-2.0
"""What a sample in memory costs: our view and copy, tmpfs, Redis, memcpy.

4,000 samples of 90 KB, random reads by one client, eleven rounds of every contender in turn. Goals: a view
in at most 200 ns, at least 50 times faster than tmpfs and 400 times faster than Redis; the copy within
10 % of memcpy.
"""
import json
import os
import subprocess

from common import daemon, make_files, median, process, scratch, spread, table, wait_for

SAMPLES, SIZE, ROUNDS = 4000, 90_000, 11

NAMES = {
    "dlcache_ns": "dlcache view (pin, touch, unpin)",
    "dlcache_copy_ns": "dlcache copy",
    "memcpy_ns": "memcpy",
    "tmpfs_ns": "tmpfs open+read+close",
    "redis_ns": "Redis GET, Unix socket",
}


def run(build):
    with scratch("/dev/shm") as memory, scratch() as home:
        data = os.path.join(memory, "data")
        make_files(data, SAMPLES, SIZE)
        redis = os.path.join(home, "redis")
        with process(["redis-server", "--port", "0", "--unixsocket", redis, "--save", "",
                      "--appendonly", "no", "--dir", home]), \
                daemon(build, home, "--memory", "1GB", "--disk", "0") as (socket, _):
            wait_for(lambda: os.path.exists(redis), "redis-server")
            out = subprocess.run([os.path.join(build, "bench", "bench-hit"), f"file://{data}", socket,
                                  data, redis, str(ROUNDS)], check=True, stdout=subprocess.PIPE).stdout
    rounds = json.loads(out)
    result = {name: median(rounds[name]) for name in NAMES}
    ours = result["dlcache_ns"]
    table(["contender", "ns per sample", "spread", "times a view"],
          [[text, f"{result[name]:.0f}", spread(rounds[name]), f"{result[name] / ours:.0f}"]
           for name, text in NAMES.items()])
    return {name: round(value, 1) for name, value in result.items()}
