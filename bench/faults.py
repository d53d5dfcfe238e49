# SPDX-License-Identifier: Apache-2.0
"""Every system call of client, daemon, nodes and manager fails, takes long, hangs or kills, and the power is cut at every
moment: the long forms of tests whose short ones are in make check. Only for bench/battery."""
import os
import subprocess
import time

UNITS = ("client-faults", "catalog-crash", "cache-disk-power_cut", "cache-disk-crash_points")
SCENARIOS = ("cluster/failing-system-calls", "manager/failing-system-calls")
LIMIT_S = 3600


def timed(name, argv, **how):
    began = time.monotonic()
    run = subprocess.run(argv, capture_output=True, text=True, timeout=LIMIT_S, **how)
    took = time.monotonic() - began
    print("%-45s %6.0f s  %s" % (name, took, "ok" if run.returncode == 0 else "FAILED"))
    if run.returncode != 0:
        raise AssertionError("%s:\n%s" % (name, (run.stdout + run.stderr)[-4000:]))
    return round(took)


def battery(build):
    seconds = {}
    for name in UNITS:
        seconds[name] = timed(name, [os.path.join(build, "tests/unit/unit-" + name), "long"])
    for name in SCENARIOS:
        seconds[name] = timed(name, ["tests/run", "--build", build, name],
                              env=dict(os.environ, FAULTS="all"))
    return {"seconds": seconds}
