# SPDX-License-Identifier: Apache-2.0
"""An epoch over images with the installed wheel: python wheel_epoch.py FIRST

FIRST says what is loaded before dlcache: "dlcache" nothing, "torchvision" that package, else a
directory of shared libraries. Prints a hash of the batches of ImageLoader, which must not depend on
it. Where torchvision is installed, Dataset and DataLoader run with its transforms as well, and it
decodes a JPEG file with its own libjpeg.
"""
import ctypes
import glob
import hashlib
import importlib.util
import os
import sys
import tempfile

CORPUS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fuzz", "corpus")
IMAGES = {"image_jpeg": (b"\xff\xd8\xff", "jpg", ("baseline", "centre-422", "progressive", "whole-444")),
          "image_png": (b"\x89PNG", "png", ("interlaced", "palette", "rgb", "sixteen"))}
first = sys.argv[1]

if first == "torchvision":
    from torchvision import transforms
elif first != "dlcache":
    libraries = sorted(glob.glob(os.path.join(first, "lib[jpz]*.so*")))
    assert any("libjpeg" in path for path in libraries), first
    for path in libraries:
        ctypes.CDLL(path)
import dlcache.torch  # noqa: E402
import torch  # noqa: E402

assert dlcache.__file__.startswith(sys.prefix), dlcache.__file__


def write_images(top):
    """Images of the fuzz targets, without the settings before them; four of each."""
    for kind, (magic, suffix, names) in IMAGES.items():
        os.mkdir(os.path.join(top, kind))
        for name in names:
            with open(os.path.join(CORPUS, kind, name), "rb") as f:
                data = f.read()
            for copy in range(4):
                with open(os.path.join(top, kind, "%s%d.%s" % (name, copy, suffix)), "wb") as f:
                    f.write(data[data.index(magic):])


def native_epoch(url):
    digest, n = hashlib.sha256(), 0
    crop = [dlcache.torch.Resize(16), dlcache.torch.CenterCrop(8)]
    for images, labels in dlcache.torch.ImageLoader(url, 8, crop, shuffle=True, seed=1):
        digest.update(repr((images.flatten().tolist(), labels.tolist())).encode())
        n += len(labels)
    assert n == 32, n
    return digest.hexdigest()


def dataloader_epoch(url):
    if importlib.util.find_spec("torchvision"):
        from torchvision import transforms
        how = {"transform": transforms.Compose([transforms.Resize((8, 8)), transforms.ToTensor()])}
    else:
        how = {"decode": "bytes", "transform": lambda data: torch.tensor(len(data))}
    loader = dlcache.torch.DataLoader(dlcache.torch.Dataset(url, **how), batch_size=8, shuffle=True, num_workers=2)
    assert sum(len(labels) for _, labels in loader) == 32
    print(loader.report(), file=sys.stderr)


with tempfile.TemporaryDirectory() as top:
    write_images(top)
    print(native_epoch("file://" + top))
    dataloader_epoch("file://" + top)
    if importlib.util.find_spec("torchvision"):
        import torchvision
        assert torchvision.io.read_image(os.path.join(top, "image_jpeg", "baseline0.jpg")).dim() == 3
with open("/proc/self/maps") as f:
    maps = f.read()
assert "dlcache.libs/libcurl-" in maps and "dlcache.libs/libsndfile-" in maps, "not the wheel's libraries"
