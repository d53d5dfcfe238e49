# SPDX-License-Identifier: Apache-2.0
"""dlcache.errors: classes by code."""
import os
import pickle
import re
import unittest

import dlcache
from dlcache import errors

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
INTERNAL = {"OK", "EMISS", "EBYPASS", "ELARGE"}  # never reach a caller of the package


class Errors(unittest.TestCase):
    def test_every_code_has_a_class(self):
        with open(ROOT + "/include/dlcache/core.h") as f:
            text = re.search(r"enum dlc_error \{(.*?)\}", f.read(), re.S).group(1)
        codes = dict(re.findall(r"^    DLC_(\w+) = (-?\d+),", text, re.M))
        self.assertIn("EINVAL", codes)
        classes = [type(errors.of(int(n), "x")) for name, n in codes.items() if name not in INTERNAL]
        self.assertNotIn(dlcache.Error, classes)
        self.assertEqual(len(set(classes)), len(classes))
        self.assertEqual({c.__name__ for c in classes} | {"Error"}, set(errors.__all__))

    def test_builtin_classes(self):
        for code, builtin in ((-1, ValueError), (-2, MemoryError), (-4, FileNotFoundError), (-5, PermissionError),
                              (-8, OSError), (-9, TimeoutError), (-11, ConnectionError)):
            with self.assertRaises(builtin):
                raise errors.of(code, "x")

    def test_code_text_errno(self):
        error = errors.of(-4, "no such thing")
        self.assertEqual((error.code, error.text, str(error), error.errno), (-4, "no such thing", "no such thing", 2))

    def test_pickle(self):
        error = pickle.loads(pickle.dumps(errors.of(-8, "the bucket failed")))
        self.assertEqual((type(error), error.code, str(error)), (dlcache.BucketError, -8, "the bucket failed"))

    def test_unknown_code(self):
        self.assertIs(type(errors.of(-99, "x")), dlcache.Error)


if __name__ == "__main__":
    unittest.main()
