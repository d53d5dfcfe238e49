# SPDX-License-Identifier: Apache-2.0
"""Datasets of images, sounds and arrays for the loader, below TEST_DIR.

    pictures.images("photos", 40)               JPEG files of two classes, sizes and kinds mixed
    loader = pictures.loader(d, "photos", 8)    dlcache.torch.ImageLoader at a daemon
    pictures.prints(loader)                     one epoch: [(hash of the batch, its labels)]
"""
import hashlib
import io
import os

import dl
import numpy
from PIL import Image

dl.needs_loader()


def picture(n, width=64, height=48):
    """Smooth pixels of image n, so that JPEG keeps them."""
    y, x = numpy.mgrid[0:height, 0:width].astype(numpy.float32)
    waves = [127 + 120 * numpy.sin((x * (1 + (n + c) % 5) + y * (1 + n % 3)) / 15 + n + c) for c in range(3)]
    return numpy.stack(waves, axis=-1).clip(0, 255).astype(numpy.uint8)


def encoded(n, form="JPEG", **how):
    out = io.BytesIO()
    image = Image.fromarray(picture(n, **how))
    if n % 7 == 3:
        image = image.convert("L")
    image.save(out, form, **({"quality": 90, "progressive": n % 5 == 4} if form == "JPEG" else {}))
    return out.getvalue()


def put(directory, key, data):
    path = dl.path(directory, key)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as f:
        f.write(data)


def images(directory, n, bad=(), classes=2):
    """n images of mixed size; those in `bad` are cut short."""
    for i in range(n):
        data = encoded(i, "PNG" if i % 6 == 5 else "JPEG", width=40 + i * 7 % 60, height=40 + i * 11 % 50)
        put(directory, f"{'abcdefgh'[i * classes // n]}/{i:05d}.{'png' if i % 6 == 5 else 'jpg'}",
            data[:len(data) // 3] if i in bad else data)


class Lists:
    """A sampler: epoch e is lists[e]."""

    def __init__(self, *lists):
        self.lists, self.epoch = lists, 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __len__(self):
        return len(self.lists[self.epoch])

    def __iter__(self):
        return iter(self.lists[self.epoch])


def loader(d, directory, batch_size, transforms=None, shape=None, **how):
    from dlcache.torch import ColorJitter, HorizontalFlip, ImageLoader, RandomResizedCrop

    transforms = transforms or [RandomResizedCrop(32), HorizontalFlip(), ColorJitter(0.2, 0.2, 0.2, 0.05)]
    return ImageLoader(dl.url(directory, **(shape or {})), batch_size, transforms, socket=d.socket,
                       spawn=False, **how)


def print_of(batch):
    images, labels = batch
    return hashlib.sha256(images.contiguous().numpy().tobytes()).hexdigest(), labels.tolist()


def prints(loader):
    return [print_of(batch) for batch in loader]
