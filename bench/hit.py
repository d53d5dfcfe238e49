# SPDX-License-Identifier: Apache-2.0
"""What a sample in memory costs: our view and copy, tmpfs, Redis, memcpy.

4,000 samples of 90 KB, random reads by one client, eleven rounds of every contender in turn. Goals: a view
in at most 200 ns, at least 50 times faster than tmpfs and 400 times faster than Redis; the copy within
10 % of memcpy.

    --tenants N   500 samples for each of N tenants of one node; each is measured in turn while all are
                  attached. Fewer samples are faster: compare with --tenants 1
"""
import argparse
import contextlib
import json
import os
import subprocess
import sys

from common import daemon, make_files, median, process, program, scratch, spread, table, wait_for

SAMPLES, SIZE, ROUNDS, OF_A_TENANT = 4000, 90_000, 11, 500

NAMES = {
    "dlcache_ns": "dlcache view (pin, touch, unpin)",
    "dlcache_copy_ns": "dlcache copy",
    "memcpy_ns": "memcpy",
    "tmpfs_ns": "tmpfs open+read+close",
    "redis_ns": "Redis GET, Unix socket",
}


def hit(build, url, socket, data, redis, env=None):
    out = subprocess.run([os.path.join(build, "bench", "bench-hit"), url, socket, data, redis, str(ROUNDS)], check=True,
                         stdout=subprocess.PIPE, env=env).stdout
    return json.loads(out)


def alone(build, home, memory, redis):
    data = os.path.join(memory, "data")
    make_files(data, SAMPLES, SIZE)
    with daemon(build, home, "--memory", "1GB", "--disk", "0") as (socket, _):
        return hit(build, f"file://{data}", socket, data, redis)


def with_tenants(n, build, home, memory, redis):
    os.environ.update(TEST_DIR=home, DLCACHE_BUILD=build, HOME=home, DLCACHE_PROGRAM=program(build),
                      PYTHONPATH=os.pathsep.join(p for p in sys.path if p))
    import nodes
    rounds = {name: [] for name in NAMES}
    with nodes.Cluster(1, "--allow-path", memory, memory="1GB") as c:
        tokens = [c.manager.tenant("t%d" % k) for k in range(n)]
        for k, token in enumerate(tokens):
            data = os.path.join(memory, "t%d" % k)
            make_files(data, OF_A_TENANT, SIZE)
            c.manager.ok("POST", "/v1/datasets", {"name": "d%d" % k, "url": f"file://{data}/", "tenant": "t%d" % k})
            c.reader(0, "d%d" % k, token=token).read([0])
        for k, token in enumerate(tokens):
            got = hit(build, "dlcache://d%d" % k, c.nodes[0].socket, os.path.join(memory, "t%d" % k), redis,
                      dict(os.environ, DLCACHE_TOKEN=token))
            for name in NAMES:
                rounds[name] += got[name]
    return rounds


def run(build, argv):
    options = argparse.ArgumentParser(prog="bench/run hit")
    options.add_argument("--tenants", type=int, default=0)
    tenants = options.parse_args(argv).tenants
    with contextlib.ExitStack() as stack:
        memory, home = stack.enter_context(scratch("/dev/shm")), stack.enter_context(scratch())
        redis = os.path.join(home, "redis")
        stack.enter_context(process(["redis-server", "--port", "0", "--unixsocket", redis, "--save", "",
                                     "--appendonly", "no", "--dir", home]))
        wait_for(lambda: os.path.exists(redis), "redis-server")
        rounds = with_tenants(tenants, build, home, memory, redis) if tenants else alone(build, home, memory, redis)
    result = {name: median(rounds[name]) for name in NAMES}
    ours = result["dlcache_ns"]
    table(["contender", "ns per sample", "spread", "times a view"],
          [[text, f"{result[name]:.0f}", spread(rounds[name]), f"{result[name] / ours:.0f}"]
           for name, text in NAMES.items()])
    return {name: round(value, 1) for name, value in result.items()}
