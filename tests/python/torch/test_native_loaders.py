# SPDX-License-Identifier: Apache-2.0
"""What the loaders make of their arguments. With a daemon: tests/scenario/loader."""
import unittest

import torchvision.transforms as tv

from dlcache.torch import (AudioLoader, CenterCrop, ColorJitter, HorizontalFlip, ImageLoader,
                           LoaderReport, Normalize, RandomResizedCrop, Resize, TensorLoader)
from dlcache.torch.transforms import settings_of


class Transforms(unittest.TestCase):
    def same(self, ours, theirs):
        self.assertEqual(settings_of(ours), settings_of(tv.Compose(theirs)))

    def test_training(self):
        self.same([RandomResizedCrop(224), HorizontalFlip(), ColorJitter(0.4, 0.4, 0.4, 0.1), Normalize()],
                  [tv.RandomResizedCrop(224), tv.RandomHorizontalFlip(), tv.ColorJitter(0.4, 0.4, 0.4, 0.1),
                   tv.ToTensor(), tv.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])])

    def test_validation(self):
        self.same([Resize(256), CenterCrop((224, 200))], [tv.Resize(256), tv.CenterCrop((224, 200)), tv.PILToTensor()])
        s = settings_of([Resize(256), CenterCrop((224, 200))])
        self.assertEqual((s.crop, s.resize, s.height, s.width), (2, 256, 224, 200))

    def test_whole(self):
        s = settings_of([Resize((30, 40))])
        self.assertEqual((s.crop, s.height, s.width), (0, 30, 40))

    def test_ranges(self):
        s = settings_of([RandomResizedCrop((8, 9), scale=(0.5, 1), ratio=(1, 1)),
                         ColorJitter(brightness=2.0, contrast=(0.9, 1.0), hue=0.25), HorizontalFlip(0.5),
                         HorizontalFlip(1.0)])
        self.assertEqual((s.height, s.width, s.scale, s.ratio), (8, 9, (0.5, 1.0), (1.0, 1.0)))
        self.assertEqual(s.jitter, [(0.0, 3.0), (0.9, 1.0), (0.0, 0.0), (-0.25, 0.25)])
        self.assertEqual(s.flip, 0.5)
        self.assertEqual(settings_of([RandomResizedCrop(8), HorizontalFlip(1.0), HorizontalFlip(1.0)]).flip, 0.0)

    def test_what_cannot_be(self):
        for word, transforms in (("RandomRotation", [RandomResizedCrop(8), tv.RandomRotation(3)]),
                                 ("one size", [HorizontalFlip()]),
                                 ("one size", [Resize(8)]),
                                 ("too late", [HorizontalFlip(), RandomResizedCrop(8)]),
                                 ("too late", [RandomResizedCrop(8), Normalize(), ColorJitter(0.1)]),
                                 ("another crop", [RandomResizedCrop(8), CenterCrop(4)]),
                                 ("nearest", [tv.RandomResizedCrop(8, interpolation=tv.InterpolationMode.NEAREST)]),
                                 ("2 channels", [RandomResizedCrop(8), Normalize([0, 0], [1, 1])])):
            with self.subTest(word), self.assertRaisesRegex(ValueError, word):
                settings_of(transforms)


class Arguments(unittest.TestCase):
    """Refused before anything is opened."""

    def refuse(self, word, make, *args, **kwargs):
        with self.assertRaisesRegex((ValueError, TypeError), word):
            make("file:///nowhere/at/all/", *args, spawn=False, **kwargs)

    def test_images(self):
        crop = [RandomResizedCrop(8)]
        self.refuse("int64", ImageLoader, 4, crop, dtype="int64")
        self.refuse("floats", ImageLoader, 4, crop + [Normalize()], dtype="uint8")
        self.refuse("batch_size", ImageLoader, 0, crop)
        self.refuse("'ignore'", ImageLoader, 4, crop, on_bad="ignore")
        self.refuse("'maybe'", ImageLoader, 4, crop, decoded_cache="maybe")
        self.refuse("'jax'", ImageLoader, 4, crop, output="jax")
        self.refuse("mutually exclusive", ImageLoader, 4, crop, sampler=[1], shuffle=True)
        self.refuse("iterated again", ImageLoader, 4, crop, sampler=3)

    def test_tensors(self):
        self.refuse("complex", TensorLoader, 4, (2,), dtype="complex64")
        self.refuse("complex", TensorLoader, 4, (2,), raw="complex64")

    def test_audio(self):
        with self.assertRaises(TypeError):
            AudioLoader("file:///nowhere/", 4)


class Text(unittest.TestCase):
    def test_report(self):
        text = str(LoaderReport(batches=4, samples=31, bad=1, from_decoded_cache=2, decoded=30, decoded_cache_samples=2, decoded_cache_bytes=2**21,
                                waited_s=1.0, step_s=3.0, busy_s=5.0, starved_s=0.25, threads=3, ready=2,
                                bad_samples=[(7, "sample 7 (a.jpg): cut short")]))
        for part in ("31 samples in 4 batches", "25.0 %", "3 threads", "2 samples from the decoded cache (2 samples, 2 MiB), 30 decoded", "a.jpg"):
            self.assertIn(part, text)


if __name__ == "__main__":
    unittest.main()
