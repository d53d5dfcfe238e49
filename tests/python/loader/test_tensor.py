# SPDX-License-Identifier: Apache-2.0
"""npy files and raw records against NumPy."""
import os
import unittest

import numpy as np

import probe

STORED = ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64"]
TYPES = ["uint8", "int32", "int64", "float16", "float32"]


def path():
    return os.path.join(os.environ["TEST_DIR"], "array.npy")


def make(shape, kind, **more):
    out = probe.run("tensor", path(), shape=",".join(map(str, shape)), type=kind, **more)
    return np.frombuffer(out, kind).reshape(-1, *shape)


def numbers(stored, count):
    """Numbers that fit every type that a tensor becomes."""
    rng = np.random.default_rng(1)
    if np.dtype(stored).kind == "f":
        return (rng.random(count) * 120).astype(stored)
    return rng.integers(0, 2 if stored == "bool" else 120, count).astype(stored)


class Conversion(unittest.TestCase):
    def test_every_pair_of_types_as_astype(self):
        for stored in STORED:
            array = numbers(stored, 60).reshape(5, 4, 3)
            np.save(path(), array)
            for kind in TYPES:
                with self.subTest(stored=stored, kind=kind):
                    self.assertEqual(make((4, 3), kind).tobytes(), array.astype(kind).tobytes())

    def test_floats_of_all_sizes_as_astype(self):
        rng = np.random.default_rng(2)
        array = rng.standard_normal(5_000) * 10.0 ** rng.integers(-12, 8, 5_000)
        for stored in ("float32", "float64"):
            np.save(path(), array.astype(stored))
            for kind in ("float16", "float32"):
                with self.subTest(stored=stored, kind=kind), np.errstate(over="ignore"):
                    self.assertEqual(make((5_000,), kind).tobytes(), array.astype(stored).astype(kind).tobytes())

    def test_large_integers_as_astype(self):
        array = np.array([0, 1, -1, 2**24 + 1, 2**53 + 1, -2**63, 2**63 - 1, 65_519, 65_520])
        np.save(path(), array)
        for kind in ("int64", "float32"):
            self.assertEqual(make((9,), kind).tobytes(), array.astype(kind).tobytes())
        with self.assertRaisesRegex(probe.Failed, "number 4 of row 0 .int64. does not fit int32"):
            make((9,), "int32")


class Files(unittest.TestCase):
    def test_versions(self):
        array = np.arange(6, dtype="<f4").reshape(2, 3)
        for version in ((1, 0), (2, 0), (3, 0)):
            with open(path(), "wb") as f:
                np.lib.format.write_array(f, array, version)
            self.assertEqual(make((2, 3), "float32").tobytes(), array.tobytes())

    def test_rows(self):
        array = np.arange(60).reshape(10, 6)
        np.save(path(), array)
        self.assertEqual(make((6,), "int64", first=3, count=2).tolist(), array[3:5].tolist())

    def test_raw(self):
        array = numbers("uint16", 40)
        array.tofile(path())
        self.assertEqual(make((2, 5), "float32", stored="uint16").tobytes(), array.astype("f4").tobytes())

    def test_refusals(self):
        for array, text in ((np.zeros((3, 2), order="F"), "Fortran"), (np.zeros((3, 2), ">f4"), "dtype '>f4'"),
                            (np.zeros((3, 2), "c8"), "dtype"), (np.zeros((2, 3)), r"shape \(2, 3\)"),
                            (np.zeros((3, 2), "f4,i4"), "dtype")):
            np.save(path(), array)
            with self.assertRaisesRegex(probe.Failed, text):
                make((3, 2), "float32")


if __name__ == "__main__":
    unittest.main()
