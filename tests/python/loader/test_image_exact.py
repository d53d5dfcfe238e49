# SPDX-License-Identifier: Apache-2.0
# timeout: 240
"""exact=True against PIL and torchvision: the same bytes, whatever is decoded, cut and resized.

The tolerance is stated with each test. Debian's PIL uses the libjpeg that we use; with another one pixels may differ
by what the two decoders differ.
"""
import io
import unittest

import numpy as np
import torch
import torchvision.transforms.functional as F
from PIL import Image, ImageOps
from torchvision import transforms

from imagetool import (CENTRE, EINVAL, F16, F32, NCHW, RANDOM, WHOLE, Error, Tool, encoded, exif, picture)

KINDS = {  # name: (mode, format, options)
    "420": ("RGB", "JPEG", {"quality": 85, "subsampling": 2}),
    "422": ("RGB", "JPEG", {"quality": 75, "subsampling": 1}),
    "444": ("RGB", "JPEG", {"quality": 92, "subsampling": 0}),
    "progressive": ("RGB", "JPEG", {"quality": 80, "progressive": True}),
    "restarts": ("RGB", "JPEG", {"quality": 70, "optimize": True}),
    "grey": ("L", "JPEG", {"quality": 85}),
    "grey progressive": ("L", "JPEG", {"quality": 85, "progressive": True}),
    "cmyk": ("CMYK", "JPEG", {"quality": 90}),
    "png": ("RGB", "PNG", {"compress_level": 1}),
    "png grey": ("L", "PNG", {}),
    "png alpha": ("RGBA", "PNG", {}),
    "png grey alpha": ("LA", "PNG", {}),
    "png palette": ("P", "PNG", {}),
    "png bits": ("1", "PNG", {}),
}


def seen(data):
    """As PIL sees it."""
    return ImageOps.exif_transpose(Image.open(io.BytesIO(data))).convert("RGB")


def difference(ours, theirs):
    return int(np.abs(ours.astype(np.int16) - np.asarray(theirs).astype(np.int16)).max())


def random_case(rng, kinds=None):
    """A picture of any kind and a box in it: (name, data, x, y, width, height)."""
    name = rng.choice(list(kinds or KINDS))
    mode, form, options = KINDS[name]
    w, h = (int(n) for n in rng.integers(1, 600, 2))
    data = encoded(Image.fromarray(picture(rng, w, h)).convert(mode), form, **options)
    bw, bh = int(rng.integers(1, w + 1)), int(rng.integers(1, h + 1))
    return name, data, int(rng.integers(0, w - bw + 1)), int(rng.integers(0, h - bh + 1)), bw, bh


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.tool = Tool()
        cls.tool.__enter__()
        cls.addClassCleanup(cls.tool.__exit__)


class Crops(Case):
    def test_random_boxes_of_all_kinds_are_the_same_bytes(self):
        rng = np.random.default_rng(1)
        for i in range(500):
            name, data, x, y, w, h = random_case(rng)
            size = tuple(int(n) for n in rng.integers(1, 300, 2)) if i % 3 else (224, 224)
            ours = self.tool.make(data, crop=RANDOM, box=(x, y, w, h), size=size, portable=i % 5 == 0)
            theirs = F.resized_crop(seen(data), y, x, h, w, size[::-1])
            with self.subTest(i=i, kind=name, box=(x, y, w, h), size=size):
                self.assertEqual(difference(ours, theirs), 0)

    def test_narrow_boxes_everywhere(self):
        """Where libjpeg's blocks begin and end, and at the edges."""
        rng = np.random.default_rng(15)
        for subsampling in 0, 1, 2:
            for progressive in False, True:
                image = Image.fromarray(picture(rng, 67, 53))
                data = encoded(image, quality=80, subsampling=subsampling, progressive=progressive)
                truth = np.asarray(seen(data))
                for width in 1, 2, 3, 9:
                    for x in range(0, 67 - width + 1):
                        y = (x * 7) % (53 - width + 1)
                        ours = self.tool.make(data, box=(x, y, width, width), size=(width, width))
                        with self.subTest(subsampling=subsampling, progressive=progressive, x=x, y=y, width=width):
                            np.testing.assert_array_equal(ours, truth[y:y + width, x:x + width])

    def test_flip(self):
        rng = np.random.default_rng(2)
        for i in range(40):
            name, data, x, y, w, h = random_case(rng)
            ours = self.tool.make(data, crop=RANDOM, box=(x, y, w, h), size=(90, 70), flipped=True)
            theirs = F.hflip(F.resized_crop(seen(data), y, x, h, w, (70, 90)))
            with self.subTest(i=i, kind=name):
                self.assertEqual(difference(ours, theirs), 0)

    def test_whole(self):
        rng = np.random.default_rng(3)
        for i in range(40):
            name, data, *_ = random_case(rng)
            with self.subTest(i=i, kind=name):
                self.assertEqual(difference(self.tool.make(data, crop=WHOLE, size=(64, 48), flip=0),
                                            F.resize(seen(data), (48, 64))), 0)

    def test_portable_and_fast_are_equal(self):
        rng = np.random.default_rng(4)
        for i in range(60):
            _, data, x, y, w, h = random_case(rng)
            how = dict(crop=RANDOM, box=(x, y, w, h), size=tuple(int(n) for n in rng.integers(1, 260, 2)), exact=False)
            np.testing.assert_array_equal(self.tool.make(data, **how), self.tool.make(data, portable=True, **how))


class Centre(Case):
    def check(self, data, resize, size, flip=0):
        steps = [transforms.Resize(resize)] if resize else []
        theirs = transforms.Compose([*steps, transforms.CenterCrop(size[::-1])])(seen(data))
        return difference(self.tool.make(data, crop=CENTRE, resize=resize, size=size, flip=flip), theirs)

    def test_resize_then_cut(self):
        rng = np.random.default_rng(5)
        for i in range(120):
            name, data, *_ = random_case(rng)
            resize = int(rng.integers(1, 300))
            size = tuple(int(n) for n in rng.integers(1, 260, 2))
            with self.subTest(i=i, kind=name, resize=resize, size=size):
                self.assertEqual(self.check(data, resize, size), 0)

    def test_cut_alone_and_larger_than_the_image(self):
        rng = np.random.default_rng(6)
        for i in range(60):
            name, data, *_ = random_case(rng)
            size = tuple(int(n) for n in rng.integers(1, 900, 2))
            with self.subTest(i=i, kind=name, size=size):
                self.assertEqual(self.check(data, 0, size), 0)

    def test_the_usual_one(self):
        rng = np.random.default_rng(7)
        data = encoded(Image.fromarray(picture(rng, 500, 375)), quality=90)
        self.assertEqual(self.check(data, 256, (224, 224)), 0)


class Orientation(Case):
    def test_all_eight(self):
        """At most 1 where the axes are swapped: the resampler's passes change places."""
        rng = np.random.default_rng(8)
        for orientation in range(1, 9):
            for form in "JPEG", "PNG":
                for i in range(6):
                    w, h = (int(n) for n in rng.integers(20, 300, 2))
                    image = Image.fromarray(picture(rng, w, h))
                    data = encoded(image, form, exif=exif(orientation) if form == "JPEG" else exif(orientation)[6:])
                    truth = seen(data)
                    self.assertEqual(self.tool.head(data)[1:4], (*truth.size, orientation))
                    bw, bh = (int(rng.integers(1, n + 1)) for n in truth.size)
                    x, y = int(rng.integers(0, truth.width - bw + 1)), int(rng.integers(0, truth.height - bh + 1))
                    flipped = bool(i % 2)
                    ours = self.tool.make(data, box=(x, y, bw, bh), size=(60, 50), flipped=flipped)
                    theirs = F.resized_crop(truth, y, x, bh, bw, (50, 60))
                    with self.subTest(orientation=orientation, form=form, flipped=flipped):
                        self.assertLessEqual(difference(ours, F.hflip(theirs) if flipped else theirs),
                                             1 if orientation >= 5 else 0)

    def test_padding_is_where_it_is_seen(self):
        rng = np.random.default_rng(9)
        for orientation in range(1, 9):
            data = encoded(Image.fromarray(picture(rng, 41, 30)), exif=exif(orientation))
            theirs = transforms.CenterCrop((61, 20))(seen(data))
            self.assertLessEqual(difference(self.tool.make(data, crop=CENTRE, size=(20, 61), flip=0), theirs), 1)


class Types(Case):
    MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)

    def test_floats_are_torchvisions_to_the_last_bit(self):
        rng = np.random.default_rng(10)
        data = encoded(Image.fromarray(picture(rng, 300, 200)))
        tensor = F.to_tensor(F.resized_crop(seen(data), 5, 7, 150, 220, (224, 224)))
        normal = F.normalize(tensor, self.MEAN, self.STD)
        how = dict(box=(7, 5, 220, 150))
        for layout, turn in ((NCHW, (0, 1, 2)), (1, (1, 2, 0))):
            for theirs, more in ((tensor, {}), (normal, {"mean": self.MEAN, "std": self.STD})):
                theirs = theirs.permute(*turn)
                np.testing.assert_array_equal(self.tool.make(data, type=F32, layout=layout, **how, **more), theirs.numpy())
                np.testing.assert_array_equal(self.tool.make(data, type=F16, layout=layout, **how, **more),
                                              theirs.to(torch.float16).numpy())

    def test_planes(self):
        rng = np.random.default_rng(11)
        for width in 1, 3, 15, 16, 17, 224:
            data = encoded(Image.fromarray(picture(rng, 90, 80)))
            how = dict(box=(3, 4, 80, 70), size=(width, 30))
            np.testing.assert_array_equal(self.tool.make(data, layout=NCHW, **how),
                                          self.tool.make(data, **how).transpose(2, 0, 1))


class Jitter(Case):
    NAMES = ("adjust_brightness", "adjust_contrast", "adjust_saturation", "adjust_hue")

    def test_each_and_all_are_the_same_bytes(self):
        rng = np.random.default_rng(12)
        for i in range(120):
            data = encoded(Image.fromarray(picture(rng, 70, 60, noise=60)), "PNG")
            factor = [float(np.float32(f)) for f in (*rng.uniform(0, 2.5, 3), rng.uniform(-0.5, 0.5))]
            order = [int(n) for n in rng.permutation(4)]
            if i < 80:  # one alone
                factor = [f if k == i % 4 else (1, 1, 1, 0)[k] for k, f in enumerate(factor)]
            theirs = seen(data)
            for k in order:
                if factor[k] != (1, 1, 1, 0)[k]:
                    theirs = getattr(F, self.NAMES[k])(theirs, factor[k])
            ours = self.tool.make(data, box=(0, 0, 70, 60), size=(70, 60), jitter=order, factor=factor)
            with self.subTest(i=i, factor=factor, order=order):
                self.assertEqual(difference(ours, theirs), 0)


class Png16(Case):
    def test_sixteen_bits_become_the_upper_eight(self):
        rng = np.random.default_rng(13)
        grey = rng.integers(0, 65536, (40, 50)).astype(np.uint16)
        data = encoded(Image.fromarray(grey), "PNG")  # PIL clips these at 255 when it converts
        ours = self.tool.make(data, box=(0, 0, 50, 40), size=(50, 40))
        np.testing.assert_array_equal(ours, np.repeat((grey >> 8).astype(np.uint8)[..., None], 3, -1))


class Limits(Case):
    def test_more_pixels_than_allowed(self):
        data = encoded(Image.new("RGB", (300, 200)))
        with self.assertRaises(Error) as e:
            self.tool.make(data, max_pixels=59999)
        self.assertEqual(e.exception.code, EINVAL)
        self.assertIn("300x200", e.exception.text)
        self.tool.make(data, max_pixels=60000)

    def test_long_sides(self):
        for size in (1, 1), (16, 10000), (10000, 16), (65500, 3), (3, 65500):
            for form in "JPEG", "PNG":
                image = Image.fromarray(picture(np.random.default_rng(14), *size))
                data = encoded(image, form)
                ours = self.tool.make(data, crop=WHOLE, size=(32, 32), flip=0)
                self.assertEqual(difference(ours, F.resize(seen(data), (32, 32))), 0)
                self.tool.make(data, crop=CENTRE, resize=256)
                for key in range(8):
                    self.tool.make(data, key=key, exact=False)


if __name__ == "__main__":
    unittest.main()
