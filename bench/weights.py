# SPDX-License-Identifier: Apache-2.0
"""What weights cost at 10 million samples: a batch's update, and drawing an epoch.

Five rounds. Goals: an update of 1,024 losses in at most 100 us, a draw in at most 1 s. Beside them the same
with NumPy, and with torch.multinomial, as SHADE draws, where they are there. Processor time, so that a busy
machine does not show; PyTorch with one thread, as ours has one.
"""
import json
import os
import subprocess
import time

from common import median, spread, table

SAMPLES, BATCH, ROUNDS = 10**7, 1024, 5

NAMES = {
    "shade_s": "shade, 10^7 draws, a tenth resident",
    "shade3_s": "the same, residents three times",
    "coverage_s": "coverage, half of 10^7, all in 4 epochs",
}


def timed(call, rounds):
    """Seconds of processor time, one figure per round."""
    seconds = []
    for _ in range(rounds):
        start = time.process_time()
        call()
        seconds.append(time.process_time() - start)
    return seconds


def by_numpy():
    """An update by the rule of ranks and a draw, as one would write them with NumPy."""
    import numpy
    rng = numpy.random.default_rng(1)
    weights = numpy.log(10 + 1000 * rng.random(SAMPLES, dtype=numpy.float32))
    ranks = numpy.log(numpy.arange(BATCH, dtype=numpy.float32) + 10)
    batches = [(rng.integers(0, SAMPLES, BATCH), rng.random(BATCH, dtype=numpy.float32)) for _ in range(2000)]
    updates = []
    for samples, losses in batches:
        def update():
            weights[samples[numpy.argsort(losses)]] = ranks
        updates += timed(update, 1)
    chances = weights.astype(numpy.float64)
    chances /= chances.sum()
    return [1e6 * s for s in updates], timed(lambda: rng.choice(SAMPLES, SAMPLES, p=chances), 1)


def by_torch():
    import torch
    torch.set_num_threads(1)
    weights = torch.log(10 + 1000 * torch.rand(SAMPLES))
    return timed(lambda: torch.multinomial(weights, SAMPLES, replacement=True), 2)


def if_there(measure, nothing):
    try:
        return measure()
    except ImportError:
        return nothing


def run(build):
    out = subprocess.run([os.path.join(build, "bench", "bench-weights"), str(SAMPLES), str(ROUNDS)],
                         check=True, stdout=subprocess.PIPE).stdout
    ours = json.loads(out)
    updates = ours["update_us"]
    numpy_us, numpy_s = if_there(by_numpy, ([], []))
    torch_s = if_there(by_torch, [])
    p99 = sorted(updates)[len(updates) * 99 // 100]
    rows = [["update of a batch of 1,024, us", f"{median(updates):.1f}", f"p99 {p99:.1f}"]]
    rows += [[f"{text}, s", f"{median(ours[name]):.3f}", spread(ours[name])] for name, text in NAMES.items()]
    if numpy_us:
        rows += [["NumPy: update, no marks, us", f"{median(numpy_us):.1f}", f"{len(numpy_us)} batches"],
                 ["NumPy: choice(), 10^7 draws, s", f"{median(numpy_s):.3f}", "once"]]
    if torch_s:
        rows += [["torch.multinomial(), 10^7 draws, s", f"{median(torch_s):.3f}", spread(torch_s)]]
    table(["10^7 samples", "median", "spread"], rows)
    return {"update_us": round(median(updates), 1), "update_p99_us": round(p99, 1),
            **{name: round(median(ours[name]), 3) for name in NAMES},
            "torch_s": round(median(torch_s), 3) if torch_s else None,
            "numpy_s": round(median(numpy_s), 3) if numpy_s else None,
            "numpy_update_us": round(median(numpy_us), 1) if numpy_us else None,
            "distinct": {name[:-2]: ours[name[:-2] + "_distinct"] for name in NAMES},
            "samples": SAMPLES}
