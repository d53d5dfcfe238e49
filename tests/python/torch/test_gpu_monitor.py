# SPDX-License-Identifier: Apache-2.0
"""GpuMonitor against a library that stands for NVML, made with the C compiler."""
import os
import shutil
import subprocess
import tempfile
import unittest
from unittest import mock

from dlcache.torch.gpu_monitor import EVERY_S, GpuMonitor

SOURCE = r"""
#include <stdlib.h>
#include <string.h>
typedef struct { unsigned gpu, memory; } util;
typedef struct { unsigned long long total, free, used; } mem;
static unsigned asked[2];
int nvmlInit_v2(void) { return getenv("NVML_BROKEN") != NULL; }
int nvmlDeviceGetCount_v2(unsigned *n) { *n = 2; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **h) { *h = (void *)(i + 1ul); return i > 1 ? 6 : 0; }
int nvmlDeviceGetHandleByUUID(const char *u, void **h) { *h = (void *)2; return strcmp(u, "GPU-b") ? 6 : 0; }
int nvmlDeviceGetIndex(void *h, unsigned *i) { *i = (unsigned)(unsigned long)h - 1; return 0; }
int nvmlDeviceGetName(void *h, char *out, unsigned n) { strncpy(out, h == (void *)1 ? "A" : "B", n); return 0; }
int nvmlDeviceGetUtilizationRates(void *h, util *u)
{
    unsigned i = (unsigned)(unsigned long)h - 1;
    u->gpu = i == 0 ? 40 + 40 * (asked[i]++ & 1) : 10;
    return i == 1 && asked[1]++ > 0 ? 15 : 0; /* B is lost after the first time */
}
int nvmlDeviceGetMemoryInfo(void *h, mem *m) { m->total = 1000; m->used = 100 * asked[0]; m->free = 0; return 0; }
"""


@unittest.skipUnless(shutil.which("cc"), "no C compiler")
class Monitor(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.home = tempfile.TemporaryDirectory()

    @classmethod
    def tearDownClass(cls):
        cls.home.cleanup()

    def monitor(self, **env):
        """One of a library of its own: the stand-in counts."""
        path = os.path.join(self.home.name, "%d.so" % len(os.listdir(self.home.name)))
        subprocess.run(["cc", "-shared", "-fPIC", "-xc", "-", "-o", path], input=SOURCE.encode(), check=True)
        with mock.patch.dict(os.environ, {"DLCACHE_NVML": path, **env}):
            return GpuMonitor()

    def test_means_and_maxima(self):
        m = self.monitor()
        self.assertEqual(m.figures(), [])
        for k in range(4):
            m.sample(k * EVERY_S)
            m.sample(k * EVERY_S + EVERY_S / 2)  # too soon: not asked
        a, b = m.figures()
        self.assertEqual((a.index, a.name, a.memory_most, a.memory_total), (0, "A", 400, 1000))
        self.assertAlmostEqual(a.utilisation, 0.6)
        self.assertEqual((b.name, b.utilisation), ("B", 0.1))  # lost later: what was seen stays

    def test_visible_devices(self):
        for visible, names in [("1", ["B"]), ("GPU-b,0", ["B", "A"]), ("0,7,1", ["A"]), ("", [])]:
            m = self.monitor(CUDA_VISIBLE_DEVICES=visible)
            m.sample(0)
            self.assertEqual([g.name for g in m.figures()], names, visible)

    def test_nothing_without_nvml(self):
        for library in ("/nowhere/libnvidia-ml.so.1", "libc.so.6"):
            m = GpuMonitor(library)
            m.sample()
            self.assertEqual(m.figures(), [])
        with mock.patch.dict(os.environ, {"NVML_BROKEN": "1"}):
            m = self.monitor()
        m.sample()
        self.assertEqual(m.figures(), [])


if __name__ == "__main__":
    unittest.main()
