# SPDX-License-Identifier: Apache-2.0
"""src/loader/image from Python, by BUILD/tests/python/loader/image-tool (see image_tool.c).

    with Tool() as tool:
        array = tool.make(jpeg, crop=RANDOM, box=(x, y, w, h), size=(224, 224))
"""
import io
import os
import struct
import subprocess
import unittest

import numpy as np

WHOLE, RANDOM, CENTRE = range(3)
U8, F32, F16 = range(3)
NCHW, NHWC = range(2)
MAKE, FORM, HEAD, PLAN = range(4)
TYPES = {U8: np.uint8, F32: np.float32, F16: np.float16}
REQUEST = struct.Struct("<3Q13d10I6fI9I4f2I")
PROGRAM = os.path.join(os.environ["DLCACHE_BUILD"], "tests", "python", "loader", "image-tool")


class Error(Exception):
    def __init__(self, code, text):
        super().__init__("%s (%d)" % (text, code))
        self.code, self.text = code, text


EINVAL, ENOMEM, ECORRUPT = -1, -2, -7


class Decoded(bytes):
    """A decoded image, as form() gives it."""


class Tool:
    def __enter__(self):
        if not os.path.exists(PROGRAM):
            raise unittest.SkipTest("built without the loader")
        self.process = subprocess.Popen([PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.stdout.close()
        assert self.process.wait(10) == 0

    def ask(self, op, data, *, size=(224, 224), crop=RANDOM, resize=0, scale=(0.08, 1), ratio=(3 / 4, 4 / 3), flip=0.5,
            brightness=(1, 1), contrast=(1, 1), saturation=(1, 1), hue=(0, 0), type=U8, layout=NHWC, mean=None, std=None,
            exact=True, max_pixels=0, key=0, box=None, flipped=False, jitter=(0, 1, 2, 3), factor=(1, 1, 1, 0),
            portable=False):
        """size is (width, height), box (x, y, width, height)."""
        normalise = mean is not None
        request = REQUEST.pack(
            key, max_pixels, len(data), *scale, *ratio, flip, *brightness, *contrast, *saturation, *hue, op, portable,
            *size, crop, resize, type, layout, normalise, exact, *(mean or (0, 0, 0)), *(std or (1, 1, 1)),
            box is not None, *(box or (0, 0, 0, 0)), flipped, *jitter, *factor, isinstance(data, Decoded), 0)
        self.process.stdin.write(request)
        self.process.stdin.write(data)
        self.process.stdin.flush()
        n, = struct.unpack("<q", self.read(8))
        if n >= 0:
            return self.read(n)
        length, = struct.unpack("<I", self.read(4))
        raise Error(n, self.read(length).decode())

    def read(self, n):
        got = self.process.stdout.read(n)
        assert len(got) == n, "image-tool ended"
        return got

    def make(self, data, **how):
        out = np.frombuffer(self.ask(MAKE, data, **how), TYPES[how.get("type", U8)])
        w, h = how.get("size", (224, 224))
        return out.reshape((3, h, w) if how.get("layout", NHWC) == NCHW else (h, w, 3))

    def form(self, data, **how):
        return Decoded(self.ask(FORM, data, **how))

    def head(self, data, **how):
        """(format, width, height, orientation, components, progressive, yuv420)"""
        return tuple(int(n) for n in self.ask(HEAD, data, **how).split())

    def plan(self, data, **how):
        """(x, y, width, height, to_width, to_height, left, top, flip)"""
        return tuple(int(n) for n in self.ask(PLAN, data, **how).split())


def picture(rng, width, height, noise=20):
    """Something like a photograph: smooth colours, edges, noise. (height, width, 3) of uint8."""
    y, x = np.mgrid[0:height, 0:width].astype(np.float32)
    planes = []
    for _ in range(3):
        a, b, c, d = rng.uniform(-0.08, 0.08, 4)
        plane = 128 + 60 * np.sin(a * x + b * y + rng.uniform(0, 6)) + 50 * np.sign(np.sin(c * x + d * y))
        planes.append(plane + rng.normal(0, noise, plane.shape))
    return np.clip(np.stack(planes, -1), 0, 255).astype(np.uint8)


def encoded(image, format="JPEG", **options):
    f = io.BytesIO()
    image.save(f, format, **options)
    return f.getvalue()


def exif(orientation):
    """An Exif segment with nothing but an orientation."""
    return b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01" + struct.pack(">HHI", orientation, 0, 0)
