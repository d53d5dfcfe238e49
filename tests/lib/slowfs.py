# SPDX-License-Identifier: Apache-2.0
"""A disk tier whose system calls are slow, hang or fail (tests/lib/slowfs.c is preloaded into the daemon).

    disk = slowfs.Disk()
    with dl.Daemon(env=disk.env) as d:
        disk.set("pwrite", 100)        each write of a chunk takes 100 ms longer
        disk.set("statvfs", "hang")    does not return until disk.clear("statvfs")
        disk.set("pread", "eio")       fails
        disk.n("pread")                calls that this has happened to so far
"""
import os

import dl

LIBRARY = os.path.join(dl.BUILD, "tests/lib/libslowfs.so")


class Disk:
    def __init__(self, name="slowfs"):
        self.dir = dl.path(name)
        os.mkdir(self.dir)
        self.env = {"SLOWFS": self.dir, "LD_PRELOAD": LIBRARY, "ASAN_OPTIONS": "verify_asan_link_order=0"}

    def path(self, call):
        return os.path.join(self.dir, call)

    def set(self, call, what):
        with open(self.path("new"), "w") as f:
            f.write(str(what))
        os.rename(self.path("new"), self.path(call))

    def clear(self, call):
        os.unlink(self.path(call))

    def n(self, call):
        try:
            return os.path.getsize(self.path(call + ".n"))
        except FileNotFoundError:
            return 0
