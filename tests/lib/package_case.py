# SPDX-License-Identifier: Apache-2.0
"""A directory, and a daemon that the package starts by itself, for unit tests of the package: they run by tests/run and
by hand alike.

    class Reading(home.Case):                      # self.write(), self.url(), self.open() below a directory of its own
        def test_x(self):
            self.write("bucket/a.bin", b"...")
            ds = self.open("bucket")               # closed when the test ends, and the daemon is stopped
"""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

import dlcache


class Case(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="dlh-", dir=os.environ.get("TEST_DIR", "/tmp"))
        self.addCleanup(shutil.rmtree, self.dir, True)
        self.settings = {"DLCACHE_DIR": self.path("d"), "DLCACHE_SOCKET": self.path("s"),
                         "DLCACHE_MEMORY": "64MB", "DLCACHE_IDLE_EXIT": "30s"}
        before = dict(os.environ)
        self.addCleanup(lambda: (os.environ.clear(), os.environ.update(before)))
        os.environ.update(self.settings)
        self.addCleanup(self.stop)

    def path(self, *parts):
        return os.path.join(self.dir, *parts)

    def stop(self):
        """End the daemon, if there is one."""
        if os.path.exists(self.path("s")):
            subprocess.run([sys.executable, "-m", "dlcache", "stop"], capture_output=True, check=False)

    def write(self, name, data):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), "wb") as f:
            f.write(data)

    def url(self, name, query=""):
        return "file://" + self.path(name) + "/" + query

    def open(self, name, query="", **options):
        ds = dlcache.open(self.url(name, query), **options)
        self.addCleanup(ds.close)
        return ds
