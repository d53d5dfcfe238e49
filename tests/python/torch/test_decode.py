# SPDX-License-Identifier: Apache-2.0
"""Every form of sample, good and bad, and what is kept of the bytes: nothing."""
import gc
import io
import json
import sys
import tarfile
import unittest
from unittest import mock

import numpy
import soundfile
import torch
from PIL import Image

from dlcache.torch.decode import Group, SampleFile, check_decode, decode, guess, suffix_of


def saved(write):
    out = io.BytesIO()
    write(out)
    return memoryview(out.getvalue())


def picture(form="PNG", mode="RGB", size=(5, 3)):
    image = Image.new(mode, size)
    image.putpixel((1, 1), 7 if mode in ("L", "P") else (10, 200, 30))
    if mode == "P":
        image.putpalette(list(range(256)) * 3)
    return saved(lambda out: image.save(out, form))


def npy(array):
    return saved(lambda out: numpy.save(out, array))


def tar(members):
    def write(out):
        with tarfile.open(fileobj=out, mode="w") as t:
            for name, data in members.items():
                info = tarfile.TarInfo(name)
                info.size = len(data)
                t.addfile(info, io.BytesIO(data))
    return saved(write)


class Images(unittest.TestCase):
    def test_rgb_as_image_folder_gives_it(self):
        for form, mode in (("PNG", "RGB"), ("JPEG", "RGB"), ("PNG", "L"), ("PNG", "P"),
                           ("BMP", "RGB"),
                           ("GIF", "P"), ("TIFF", "RGB"), ("WEBP", "RGB")):
            data = picture(form, mode)
            with self.subTest(form=form, mode=mode):
                image = decode(data, "x." + form.lower())
                self.assertEqual((image.mode, image.size), ("RGB", (5, 3)))
                self.assertEqual(image, Image.open(io.BytesIO(data)).convert("RGB"))

    def test_a_mask_keeps_its_numbers(self):
        for how in ("mask", "target"):
            self.assertEqual(decode(picture(mode="P"), "m.png", how).getpixel((1, 1)), 7)
            self.assertEqual(decode(picture(mode="L"), "m.png", how).mode, "L")

    def test_cut_short_says_which(self):
        for how in ("auto", "image", "mask"):
            with self.assertRaisesRegex(ValueError, "cat/1.jpg is no (image|mask)"):
                decode(picture("JPEG", size=(300, 300))[:600], "cat/1.jpg", how)

    def test_noise(self):
        with self.assertRaisesRegex(ValueError, "x.jpg is no image"):
            decode(memoryview(b"noise" * 100), "x.jpg")


class Views(unittest.TestCase):
    def test_nothing_keeps_the_view(self):
        pair = {"1.png": bytes(picture()), "1.cls": b"3"}
        for name, data, how in (
                ("image", picture(), "image"), ("mask", picture(), "mask"),
                ("text", b"abc", "text"), ("json", b"[1]", "json"), ("cls", b"1", "cls"),
                ("npy", npy(numpy.arange(10)), "npy"), ("none", b"abc", None),
                ("csv", b"a,b\n1,2\n", "csv"), ("group", tar(pair), "group"),
                ("fortran", npy(numpy.asfortranarray(numpy.ones((3, 2)))), "npy")):
            with self.subTest(name):
                buffer = bytearray(data)
                view = memoryview(buffer)
                made = decode(view, "key", how)
                view.release()
                buffer.append(0)  # BufferError if anything still looked at it
                self.assertIsNotNone(made)
        gc.collect()


class Forms(unittest.TestCase):
    def test_sound(self):
        for form in ("WAV", "FLAC", "OGG"):
            data = saved(lambda out: soundfile.write(out, numpy.full((160, 2), 0.25), 16000,
                                                     format=form))
            sound, rate = decode(data, "noname")
            self.assertEqual((tuple(sound.shape), sound.dtype, rate),
                             ((2, 160), torch.float32, 16000))
            self.assertTrue(sound.is_contiguous())
            if form != "OGG":
                self.assertAlmostEqual(float(sound[1, 9]), 0.25, 4)

    def test_arrays(self):
        for array in (numpy.arange(12).reshape(3, 4), numpy.float32(3), numpy.zeros((0, 3)),
                      numpy.array([True]), numpy.arange(3, dtype=">i4"),
                      numpy.asfortranarray(numpy.arange(6.).reshape(2, 3))):
            tensor = decode(npy(array), "x.npy")
            self.assertEqual(tensor.shape, array.shape)
            self.assertTrue(numpy.array_equal(tensor.numpy(), array))
            tensor.zero_()  # our own memory
        self.assertEqual(decode(npy(numpy.array(["a", "b"])), "x.npy").tolist(), ["a", "b"])
        with self.assertRaisesRegex(ValueError, "x.npy"):
            decode(npy(numpy.arange(100))[:-8], "x.npy")
        with self.assertRaisesRegex(ValueError, "x.npy"):
            decode(npy(numpy.array([{}], dtype=object)), "x.npy")
        data = saved(lambda out: numpy.savez(out, a=numpy.arange(2), b=numpy.ones(1)))
        self.assertEqual({k: v.tolist() for k, v in decode(data, "x.npz").items()},
                         {"a": [0, 1], "b": [1.0]})

    def test_texts(self):
        self.assertEqual(decode(memoryview("\ufeffüber\n".encode()), "a.txt"), "über\n")
        self.assertEqual(decode(memoryview(b'{"a": [1, null]}'), "a.json"), {"a": [1, None]})
        self.assertEqual(decode(memoryview(b" 17\n"), "a.cls"), 17)
        for data, key in ((b"\xff\xfe", "a.txt"), (b"{", "a.json"), (b"x", "a.cls")):
            with self.assertRaisesRegex(ValueError, key):
                decode(memoryview(data), key)

    def test_tables(self):
        self.assertEqual(decode(memoryview(b'a,b\r\n1,"x, y"\r\n\r\n2,z\r\n'), "t.csv"),
                         {"a": ["1", "2"], "b": ["x, y", "z"]})
        self.assertEqual(decode(memoryview(b"a;b\n1;2,5\n"), "t.csv"), {"a": ["1"], "b": ["2,5"]})
        self.assertEqual(decode(memoryview(b"1\t2\n3\t4\n"), "t.tsv"),
                         {"column1": ["1", "3"], "column2": ["2", "4"]})
        self.assertEqual(decode(memoryview(b"a,b\n"), "t.csv"), {"a": [], "b": []})
        with self.assertRaisesRegex(ValueError, "row 1 has 1 fields"):
            decode(memoryview(b"a,b\n1,2\n3\n"), "t.csv")

    def test_torch_files(self):
        data = saved(lambda out: torch.save({"x": torch.arange(3)}, out))
        self.assertEqual(decode(data, "x.pt")["x"].tolist(), [0, 1, 2])
        evil = saved(lambda out: torch.save(Group(a=io.BytesIO(b"")), out))
        with self.assertRaisesRegex(ValueError, "x.pt"):
            decode(evil, "x.pt")
        self.assertIn("a", decode(evil, "x.pt", "torch-unsafe"))

    def test_bytes(self):
        for how in ("bytes", None, "auto"):
            self.assertEqual(decode(memoryview(b"abc"), "x.bin", how), b"abc")


class Groups(unittest.TestCase):
    def test_sample_and_class(self):
        group = decode(tar({"t/1.png": bytes(picture()), "t/1.cls": b"3"}), "s.tar/t/1")
        self.assertEqual(sorted(group), ["__key__", "cls", "png"])
        image, target = group.pair()
        self.assertEqual((image.size, target, group["__key__"]), ((5, 3), 3, "s.tar/t/1"))

    def test_more_than_a_pair(self):
        group = decode(tar({"1.seg.png": bytes(picture()), "1.jpg": bytes(picture("JPEG")),
                            "1.json": b"{}"}), "1")
        self.assertEqual(sorted(group), ["__key__", "jpg", "json", "seg.png"])
        self.assertIsNone(group.pair())

    def test_without_the_end_of_the_tar(self):
        data = tar({"1.txt": b"hello", "1.cls": b"3"})
        self.assertEqual(decode(data[:2048], "1").pair(), ("hello", 3))

    def test_members_by_suffix(self):
        data = tar({"1.txt": b"hello", "1.bin": b"\1\2"})
        group = decode(data, "1", {"bin": lambda view: sum(view)})
        self.assertEqual((group["bin"], group["txt"]), (3, "hello"))

    def test_a_bad_member_is_named(self):
        with self.assertRaisesRegex(ValueError, "shard/1 is no group.*1.json"):
            decode(tar({"1.json": b"{"}), "shard/1")


class Choosing(unittest.TestCase):
    def test_bytes_come_before_suffixes(self):
        self.assertEqual(guess(picture(), "x.txt"), "image")
        self.assertEqual(guess(memoryview(b"RIFF\0\0\0\0WAVE"), "x.jpg"), "audio")
        self.assertEqual(guess(memoryview(b""), "x.JPG"), "image")
        self.assertEqual(guess(memoryview(b"P"), "x"), "bytes")
        self.assertEqual([suffix_of(k) for k in ("a.b/c", "a/b.C.JPG", "")], ["", "jpg", ""])

    def test_by_suffix(self):
        how = {".a": "text", "b": None, "c": len}
        self.assertEqual([decode(memoryview(b"xy"), k, how) for k in ("1.a", "1.b", "1.c")],
                         ["xy", b"xy", 2])
        with self.assertRaisesRegex(ValueError, "'.d' of 1.d"):
            decode(memoryview(b""), "1.d", how)
        self.assertEqual(decode(memoryview(b"xy"), "1.d", dict(how, **{"": "bytes"})), b"xy")

    def test_unknown(self):
        for how in ("jpeg", {"a": "jpeg"}):
            with self.assertRaisesRegex(ValueError, "'jpeg' is unknown; there are auto"):
                check_decode(how)
        with self.assertRaises(TypeError):
            check_decode(3)

    def test_a_missing_library_names_its_packages(self):
        with mock.patch.dict(sys.modules, {"soundfile": None}):
            with self.assertRaisesRegex(ImportError,
                                        "apt install python3-soundfile or pip install soundfile"):
                decode(memoryview(b"fLaC"), "x.flac")

    def test_a_file_of_a_sample(self):
        with SampleFile(memoryview(json.dumps([1]).encode()), "a/b.json") as f:
            self.assertEqual((json.load(f), f.name), ([1], "a/b.json"))


if __name__ == "__main__":
    unittest.main()
