# SPDX-License-Identifier: Apache-2.0
"""System calls of a running program that fail, take long, hang or end it (src/base/fault.h).

    seam = faults.Seam("a")
    with dl.Daemon(env=seam.env) as d:
        seam.arm(d.process.pid, "fsync+rename", 3, "fail")      from now on; the third of them
        ...
        seam.disarm().hits                                      of so many .calls; the last was .last
"""
import collections
import os
import subprocess

import dl

Met = collections.namedtuple("Met", "calls hits last")


class Seam:
    def __init__(self, name):
        self.file = dl.path("fault-" + name)
        self.env = {"DLCACHE_TEST_FAULT": "@" + self.file}

    def ctl(self, *words):
        program = os.path.join(dl.BUILD, "tests/lib/faultctl")
        return subprocess.run([program, self.file, *words], check=True, capture_output=True, text=True).stdout

    def arm(self, pid, calls, nth, mode="fail", value=0):
        self.ctl("arm", "%s,%d,%s,%d" % (calls, nth, mode, value), str(pid))

    def disarm(self):
        calls, hits, last = self.ctl("disarm").split()
        return Met(int(calls), int(hits), last)

    def calls(self, pid, what, work):
        """How many calls of that kind the process makes while the function runs."""
        self.arm(pid, what, 1000000000)
        work()
        return self.disarm().calls


def descriptors(pid):
    return len(os.listdir("/proc/%d/fd" % pid))
