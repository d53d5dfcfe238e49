# SPDX-License-Identifier: Apache-2.0
import os
import unittest
import unittest.mock

from dlcache.torch.pipeline import host_limits

GB = 1 << 30


class Limits(unittest.TestCase):
    def files(self, **files):
        """These files, by the end of their names, instead of those of the kernel."""
        def read(path):
            return next((text for name, text in files.items()
                         if path.endswith(name.replace("__", "/").replace("_", "."))), "")

        patch = unittest.mock.patch.object(host_limits, "_read", read)
        patch.start()
        self.addCleanup(patch.stop)

    def test_here(self):
        self.assertGreaterEqual(host_limits.cores(), 1)
        self.assertLessEqual(host_limits.cores(), os.cpu_count())
        self.assertGreater(host_limits.available_bytes(), 1 << 20)
        self.assertGreater(host_limits.own_bytes(os.getpid()), 1 << 20)
        self.assertEqual(host_limits.own_bytes(2**22 + 1), 0)
        self.assertGreater(host_limits.workers_that_fit([os.getpid()]), 1)
        self.assertGreater(host_limits.workers_that_fit([]), 1 << 20)

    def test_a_quota_of_the_cgroup(self):
        with unittest.mock.patch.object(os, "sched_getaffinity", lambda _: set(range(8))):
            self.assertLessEqual(host_limits.cores(), 8)
            self.files(cgroup="0::/a/b\n", cpu_max="150000 100000\n")
            self.assertEqual(host_limits.cores(), 2)
            self.files(cgroup="0::/a/b\n", cpu_max="10000 100000\n")
            self.assertEqual(host_limits.cores(), 1)
            self.files(cgroup="0::/a/b\n", cpu_max="max 100000\n")
            self.assertEqual(host_limits.cores(), 8)
            self.files()
            self.assertEqual(host_limits.cores(), 8)

    def test_memory_of_the_cgroup(self):
        self.files(meminfo="MemTotal: 9 kB\nMemAvailable:  4194304 kB\n", memory_max="max\n")
        self.assertEqual(host_limits.available_bytes(), 4 * GB)
        self.files(meminfo="MemAvailable:  4194304 kB\n", memory_max="%d\n" % (3 * GB),
                   memory_current="%d\n" % (2 * GB))
        self.assertEqual(host_limits.available_bytes(), GB)

    def test_workers_by_memory(self):
        self.files(meminfo="MemAvailable:  4194304 kB\n",
                   smaps__rollup="Private_Clean: 0 kB\nPrivate_Dirty:  524288 kB\n")
        with unittest.mock.patch.object(host_limits, "own_bytes", lambda pid: GB // 2):
            self.assertEqual(host_limits.workers_that_fit([1, 2]), 2 + 4)


if __name__ == "__main__":
    unittest.main()
