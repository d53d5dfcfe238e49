# SPDX-License-Identifier: Apache-2.0
"""How often a sample is still in memory when memory holds a share c of the data: LRU and ours.

20,000 samples, each read once per epoch in a fresh permutation, by the real daemon. A hit is a sample that
was not fetched from the bucket in that epoch. No policy can hit more than c; goal: ours equals c within
0.01 at every c from the second epoch on.
"""
import json
import os
import subprocess

from common import daemon, make_files, scratch, stat, table

SAMPLES, SIZE, EPOCHS, RATE = 20_000, 16_320, 4, 10_000
SHARES = (0.1, 0.2, 0.4, 0.6, 0.8)


def hits(build, url, c, policy, how):
    """Hit ratio of each epoch after the first."""
    memory = 4096 + int(c * SAMPLES) * SIZE
    memory += -memory % 4096
    with scratch() as home, daemon(build, home, "--quiet", "--memory", str(memory), "--disk", "0",
                                   "--memory-policy", policy) as (socket, _):
        child = subprocess.Popen([os.path.join(build, "bench", "bench-consume"), url, socket,
                                  str(EPOCHS), str(RATE), how],
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        gets, ratios = 0, []
        for epoch in range(EPOCHS):
            json.loads(child.stdout.readline())
            now = stat(build, socket)["counters"]["bucket_gets"]
            if epoch > 0:
                ratios.append(1 - (now - gets) / SAMPLES)
            gets = now
            child.stdin.write("\n")
            child.stdin.flush()
        child.communicate()
    return ratios


def run(build):
    rows, result = [], {"c": list(SHARES), "lru": [], "ours": []}
    with scratch("/dev/shm") as memory:
        data = os.path.join(memory, "data")
        make_files(data, SAMPLES, SIZE)
        for c in SHARES:
            lru = hits(build, f"file://{data}", c, "lru", "plain")
            ours = hits(build, f"file://{data}", c, "auto", "follow")
            result["lru"].append(round(sum(lru) / len(lru), 4))
            result["ours"].append(round(sum(ours) / len(ours), 4))
            rows.append([f"{c:.1f}", f"{result['lru'][-1]:.3f}", f"{result['ours'][-1]:.3f}",
                         " ".join(f"{h:.3f}" for h in ours)])
    table(["c", "LRU", "ours", "ours, epochs 2 to 4"], rows)
    return result
