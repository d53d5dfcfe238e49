# SPDX-License-Identifier: Apache-2.0
"""Programs of tests/probe: one thing of the library, done in a process of its own.

    out = probe.run("audio", path, samples=16000, mono=1)     the bytes it wrote
    probe.Failed                                               with the text of the error
"""
import os
import subprocess
import unittest


class Failed(Exception):
    """The text says why."""


def run(name, path, **values):
    program = os.path.join(os.environ["DLCACHE_BUILD"], "tests/probe/probe-" + name)
    if not os.path.exists(program):
        raise unittest.SkipTest(f"probe-{name} is not built (meson option loader)")
    done = subprocess.run([program, path, *(f"{k}={v}" for k, v in values.items())], capture_output=True)
    if done.returncode != 0:
        raise Failed(done.stderr.decode())
    return done.stdout
