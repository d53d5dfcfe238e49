# SPDX-License-Identifier: Apache-2.0
"""What it costs to know the order: the shuffle, its inverse, the next use of a sample.

At a thousand, a million and a billion samples, eleven rounds. Goals: an element and a position in at most
50 ns at a billion, a next use in at most 100 ns. Processor time, so that a busy machine does not show.
"""
import json
import os
import subprocess

from common import median, spread, table

SIZES, ROUNDS = (10**3, 10**6, 10**9), 11

NAMES = {
    "at_ns": "element at a position",
    "inverse_ns": "position of an element",
    "at_wait_ns": "element, one waits for the other",
    "inverse_wait_ns": "position, one waits for the other",
    "init_ns": "a new epoch and its first element",
    "next_use_ns": "next use of a random sample",
    "index_ns": "next use, explicit list of 10^6 at most",
}


def run(build):
    rounds = {}
    for n in SIZES:
        out = subprocess.run([os.path.join(build, "bench", "bench-order"), str(n), str(ROUNDS)],
                             check=True, stdout=subprocess.PIPE).stdout
        rounds[n] = json.loads(out)
    heads = [text for n in SIZES for text in (f"ns at 10^{len(str(n)) - 1}", "spread")]
    table(["", *heads],
          [[text, *(cell for n in SIZES for cell in (f"{median(rounds[n][name]):.1f}", spread(rounds[n][name])))]
           for name, text in NAMES.items()])
    result = {name: round(median(rounds[SIZES[-1]][name]), 1) for name in NAMES}
    result["by_n"] = {str(n): {name: round(median(rounds[n][name]), 1) for name in NAMES} for n in SIZES}
    return result
