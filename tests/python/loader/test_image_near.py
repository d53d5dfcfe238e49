# SPDX-License-Identifier: Apache-2.0
# timeout: 120
"""Where pixels may differ from torchvision's: scaled decoding and reduced forms. And forms that may not differ."""
import io
import unittest

import numpy as np
import torchvision.transforms.functional as F
from PIL import Image

from imagetool import CENTRE, EINVAL, RANDOM, WHOLE, Error, Tool, encoded, exif, picture

# Of 255, over all pixels of an image: what docs/loader.md states.
MEAN, MAX = 2.5, 32


def apart(a, b):
    d = np.abs(a.astype(np.int16) - np.asarray(b).astype(np.int16))
    return float(d.mean()), int(d.max())


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.tool = Tool()
        cls.tool.__enter__()
        cls.addClassCleanup(cls.tool.__exit__)


class Scaled(Case):
    def test_differs_little(self):
        rng = np.random.default_rng(1)
        worst = (0.0, 0)
        for i in range(60):
            w, h = (int(n) for n in rng.integers(500, 1400, 2))
            image = Image.fromarray(picture(rng, w, h, noise=8))
            data = encoded(image, quality=90, subsampling=i % 3, progressive=bool(i % 2))
            bw, bh = int(rng.integers(224, w + 1)), int(rng.integers(224, h + 1))
            x, y = int(rng.integers(0, w - bw + 1)), int(rng.integers(0, h - bh + 1))
            ours = self.tool.make(data, box=(x, y, bw, bh), size=(112, 112), exact=False)
            theirs = F.resized_crop(Image.open(io.BytesIO(data)), y, x, bh, bw, (112, 112))
            mean, most = apart(ours, theirs)
            worst = max(worst[0], mean), max(worst[1], most)
            with self.subTest(i=i, box=(x, y, bw, bh)):
                self.assertLessEqual(mean, MEAN)
                self.assertLessEqual(most, MAX)
        print("scaled decoding: mean at most %.2f, max %d of 255" % worst)

    def test_is_used_only_when_the_box_stays_larger(self):
        rng = np.random.default_rng(2)
        data = encoded(Image.fromarray(picture(rng, 447, 447)))
        np.testing.assert_array_equal(self.tool.make(data, crop=WHOLE, flip=0, exact=False),
                                      self.tool.make(data, crop=WHOLE, flip=0))
        data = encoded(Image.fromarray(picture(rng, 448, 448)))
        self.assertGreater(apart(self.tool.make(data, crop=WHOLE, flip=0, exact=False),
                                 self.tool.make(data, crop=WHOLE, flip=0))[1], 0)


class Forms(Case):
    def check(self, data, how, keys=range(6)):
        """The form's pixels and those of the encoded image, over some plans: the worst."""
        form = self.tool.form(data, **how)
        self.assertEqual(self.tool.head(form, **how)[1:3], self.tool.head(data, **how)[1:3])
        pairs = [(self.tool.make(data, key=k, **how), self.tool.make(form, key=k, **how)) for k in keys]
        mean, most = (max(n) for n in zip(*(apart(*p) for p in pairs)))
        return len(form), mean, most

    def test_of_random_crops_without_reduction_are_the_same_bytes(self):
        rng = np.random.default_rng(3)
        for i in range(60):
            w, h = (int(n) for n in rng.integers(1, 500, 2))
            image = Image.fromarray(picture(rng, w, h))
            data = encoded(image, "PNG") if i % 6 == 5 else \
                encoded(image.convert("L") if i % 6 == 4 else image, subsampling=(2, 2, 2, 0)[i % 4],
                        progressive=bool(i % 5 == 1), exif=exif(1 + i % 8))
            for portable in False, True:
                with self.subTest(i=i, size=(w, h), portable=portable):
                    _, mean, most = self.check(data, dict(size=(100, 90), portable=portable))
                    self.assertLessEqual(most, 1 if i % 8 >= 4 else 0)

    def test_of_4_2_0_take_one_and_a_half_bytes_for_a_pixel(self):
        image = Image.fromarray(picture(np.random.default_rng(4), 500, 375))
        self.assertEqual(self.check(encoded(image, quality=95), {})[0], 64 + 500 * 375 + 2 * 250 * 188 + 64)
        self.assertEqual(self.check(encoded(image, subsampling=0), {})[0], 64 + 3 * 500 * 375 + 64)

    def test_of_fixed_crops_are_finished(self):
        rng = np.random.default_rng(5)
        for i in range(40):
            w, h = (int(n) for n in rng.integers(1, 700, 2))
            data = encoded(Image.fromarray(picture(rng, w, h)), exif=exif(1 + i % 8))
            size = tuple(int(n) for n in rng.integers(1, 300, 2))
            how = dict(size=size, crop=(CENTRE, WHOLE)[i % 2], resize=int(rng.integers(0, 300)), exact=bool(i % 3))
            with self.subTest(i=i, how=how):
                length, _, most = self.check(data, how)
                self.assertEqual(most, 0)
                self.assertLessEqual(length, 128 + 3 * size[0] * size[1])

    def test_of_large_images_are_reduced(self):
        rng = np.random.default_rng(6)
        for form in "JPEG", "PNG":
            data = encoded(Image.fromarray(picture(rng, 2001, 1500, noise=8)), form)
            length, mean, most = self.check(data, dict(scale=(0.3, 1), exact=False))
            self.assertEqual(length, 128 + 3 * 1000 * 750)
            self.assertLessEqual(mean, MEAN)
            self.assertLessEqual(most, MAX)
            self.assertEqual(self.check(data, dict(scale=(0.3, 1)), range(1))[0] > 4000000, True)  # exact: whole

    def test_of_another_policy_is_refused(self):
        data = encoded(Image.fromarray(picture(np.random.default_rng(7), 500, 400)))
        form = self.tool.form(data, crop=CENTRE, resize=256)
        with self.assertRaises(Error) as e:
            for key in range(20):
                self.tool.make(form, crop=RANDOM, key=key)
        self.assertEqual(e.exception.code, EINVAL)
        self.assertIn("another crop", e.exception.text)


if __name__ == "__main__":
    unittest.main()
