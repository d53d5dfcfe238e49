# SPDX-License-Identifier: Apache-2.0
"""A dataset of 10 million samples: memory per sample, and how long a second process takes to open it.

Memory is what the daemon needs for the dataset when every sample has been touched: the catalog's file
(mapped by all), the index (16 bytes a slot) and what the daemon's private memory grew by. Goals: at most 64
bytes per sample in all, 16 of them the slot; at most 0.05 s to open it in a second process.
"""
import json
import os
import subprocess

from common import daemon, median, scratch, spread, table

SAMPLES, OPENS = 10_000_000, 9


def private_bytes(pid):
    """Memory of the process itself: not files, not shared memory."""
    for line in open(f"/proc/{pid}/status"):
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    return 0


def run(build):
    tool = os.path.join(build, "bench", "bench-scale")

    def call(*argv):
        return json.loads(subprocess.run([tool, *argv], check=True, stdout=subprocess.PIPE).stdout)

    with scratch() as home:
        bucket, cache = os.path.join(home, "bucket"), os.path.join(home, "cache")
        os.makedirs(bucket)
        os.makedirs(os.path.join(cache, "catalogs"))
        url = f"file://{bucket}"
        made = call("build", cache, url, str(SAMPLES))
        with daemon(build, home, "--disk", "0") as (socket, child):
            before = private_bytes(child.pid)
            first = call("open", url, socket)
            opens = [call("open", url, socket) for _ in range(OPENS)]
            private = max(0, private_bytes(child.pid) - before)
    catalog, slot, rest = made["file_bytes"] / SAMPLES, 16.0, private / SAMPLES
    seconds = [o["open_s"] for o in opens]
    table(["what", "figure", "spread"], [
        ["catalog, bytes per sample", f"{catalog:.1f}", ""],
        ["slot, bytes per sample", f"{slot:.1f}", ""],
        ["daemon's private memory, bytes per sample", f"{rest:.2f}", ""],
        ["all, bytes per sample", f"{catalog + slot + rest:.1f}", ""],
        ["making the catalog, s", f"{made['build_s']:.1f}", ""],
        ["first open, s", f"{first['open_s']:.4f}", ""],
        ["open in a second process, s", f"{median(seconds):.4f}", spread(seconds)],
        ["key and look-up by key, us", f"{median([o['find_us'] for o in opens]):.1f}", ""],
    ])
    return {
        "samples": SAMPLES,
        "bytes_per_sample": round(catalog + slot + rest, 2),
        "slot_bytes": slot,
        "open_s": round(median(seconds), 5),
        "first_open_s": round(first["open_s"], 5),
    }
