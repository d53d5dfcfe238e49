# SPDX-License-Identifier: Apache-2.0
"""Tiny datasets below TEST_DIR/bucket, as the documentation names them below s3://my-bucket/.

    pets/     train/ and test/, in each of them cat/ and dog/ with PNG files of 32 x 32 pixels
    shards/   WebDataset: tars with NAME.png and NAME.cls
    aged/     WebDataset: a tar with NAME.png and NAME.json
    clicks/   csv files of numbers
    speech/   WAV files
    arrays/   npy files of shape (3, 4)
    mnist/    train/ and test/, in each of them 0/ to 9/ with grey PNG files of 28 x 28 pixels
"""
import io
import os
import tarfile

import dl
from PIL import Image


def picture(n, size=32, mode="RGB"):
    """The bytes of PNG number n."""
    out = io.BytesIO()
    data = dl.content(n, size * size * len(mode if mode == "RGB" else "L"))
    Image.frombytes(mode, (size, size), data).save(out, "PNG")
    return out.getvalue()


def folders(name, classes, per_class, **how):
    """per_class pictures of each class in train/, a quarter of that in test/."""
    n = 0
    for split, count in (("train", per_class), ("test", max(1, per_class // 4))):
        for label in classes:
            folder = dl.path("bucket", name, split, label)
            os.makedirs(folder)
            for k in range(count):
                with open(os.path.join(folder, "%04d.png" % k), "wb") as f:
                    f.write(picture(n, **how))
                n += 1


def shards(name, archives, per_archive, members):
    """Tars of per_archive groups; members(n) gives {suffix: bytes} of group n."""
    os.makedirs(dl.path("bucket", name))
    for a in range(archives):
        with tarfile.open(dl.path("bucket", name, "%06d.tar" % a), "w") as tar:
            for n in range(a * per_archive, (a + 1) * per_archive):
                for suffix, data in members(n).items():
                    member = tarfile.TarInfo("%05d.%s" % (n, suffix))
                    member.size = len(data)
                    tar.addfile(member, io.BytesIO(data))


def pets():
    folders("pets", ("cat", "dog"), 40)


def archives():
    shards("shards", 4, 10, lambda n: {"png": picture(n), "cls": b"%d" % (n % 2)})
    shards("aged", 1, 10, lambda n: {"png": picture(n), "json": b'{"age": %d}' % n})


def clicks():
    os.makedirs(dl.path("bucket/clicks"))
    for k in range(3):
        with open(dl.path("bucket/clicks", "day%d.csv" % k), "w") as f:
            f.write("user,item,price\n" + "".join("%d,%d,%.2f\n" % (n, n % 7, n / 8) for n in range(100)))


def speech():
    import numpy
    import soundfile

    os.makedirs(dl.path("bucket/speech"))
    os.makedirs(dl.path("bucket/arrays"))
    for k in range(6):
        wave = numpy.sin(numpy.arange(8000 + 1000 * k) / (9 + k)) / 2
        soundfile.write(dl.path("bucket/speech", "%d.wav" % k), wave, 8000)
        numpy.save(dl.path("bucket/arrays", "%d.npy" % k), numpy.full((3, 4), k, "f4"))


def mnist():
    folders("mnist", "0123456789", 24, size=28, mode="L")
